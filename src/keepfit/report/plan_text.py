"""A plan, as text that a person acts on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..conditions.reading import size
from . import tables
from .style import Style, one_line

LAYERS = 8  # the largest ones
FILES = 8  # the first ones that it wrote
FASTER = 1.2  # times the rows a second of the largest batch: less is chance, with three steps of each
WORDS = {
    "runtime": "framework and program",
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "activations": "activations",
    "workspace": "workspace and what the allocator keeps",
    "pipeline": "input pipeline",
    "preloaded": "data held in memory",
}

OUTLOOK = {
    "fits": "it fits",
    "may_not_fit": "it may not fit",
    "does_not_fit": "it most likely does not fit",
    "unknown": "whether it fits is not known",
}
FIRST_STEPS = ", in its first steps: more may be kept in later ones"
ELSEWHERE = {
    "preparation": "the peak is before the training, while the script prepares it: no smaller batch lowers that",
    "validation": "the peak is in the validation, not in a training step: a smaller validation_batch_size lowers it",
}


def render(document: Mapping[str, Any], colours: bool, width: int) -> str:
    style = Style(colours)
    low, high = document["interval_bytes"]
    held = f" in {document['coverage']:.0%} of trainings" if document["coverage"] else ", not calibrated"
    headline = (
        f"batch {document['batch_size'] or '?'} needs about {size(document['predicted_peak_bytes'])}"
        f" ({size(low)} to {size(high)}{held}){_code(document)}; there are {size(document['limit_bytes'])}"
        f" ({document['limit_source']}){_reserve(document)}: {OUTLOOK[document['outlook']]}"
    )
    lines = [style(one_line(headline), "green" if document["fits"] else "red")]
    if document["how"] == "measured" and document["static_peak_bytes"]:
        lines.append(style(f"measured in small; its graph alone says {size(document['static_peak_bytes'])}", "dim"))
    elif document["how"] == "static" and document["device"] == "host" and document["static_peak_bytes"]:
        lines.append(style("by its graph alone", "dim"))
    if document["largest_batch"] and document["verified"]:
        whole = ", all of the data" if document["largest_batch"] == document["samples"] else ""
        more = "; larger ones may fit, too" if document["search_ended"] else ""
        found = f"{document['largest_batch']}{whole}{_later(document)}{more}"
        lines.append(f"largest batch that was tried and fits: {found}")
    elif document["largest_batch"]:
        lines.append(f"largest batch by its graph alone, not tried: {document['largest_batch']}")
    if (where := document["peak_in"]) in ELSEWHERE:
        lines.append(ELSEWHERE[where])
    lines += ["", *_breakdown(document, width)]
    layers = [layer for layer in document["layers"] if layer["activation_bytes"] or layer["weight_bytes"]][:LAYERS]
    if layers:
        rows = [
            [
                one_line(layer["name"]),
                size(layer["activation_bytes"]),
                size(layer["weight_bytes"]),
                f"{layer['time_share']:.0%}",
            ]
            for layer in layers
        ]
        lines += ["", tables.render(("LAYER", "ACTIVATIONS", "WEIGHTS", "SHARE OF THE WORK"), rows, width, colours)]
    if document["options"]:
        rows = [
            [
                f"{option['name']} {option['value'] if option['value'] is not None else ''}".strip(),
                size(option["predicted_peak_bytes"]),
                f"x {option['slowdown']:.2f}" if option["slowdown"] else "?",
                "yes" if option["exact"] else "no",
                "yes" if option["fits"] else "no",
            ]
            for option in document["options"]
        ]
        header = ("OPTION", "NEEDS (ESTIMATE)", "TIME (ESTIMATE)", "SAME RESULTS", "FITS")
        lines += ["", tables.render(header, rows, width, colours)]
        hows = {one_line(option["how"]): option["name"] for option in document["options"]}
        lines += [style(f"  {name}: {how}", "dim") for how, name in hows.items()]
    lines += _tried(document, width, colours)
    if document["wrote"]:
        more = f" and {len(document['wrote']) - FILES} more" if len(document["wrote"]) > FILES else ""
        wrote = one_line(", ".join(document["wrote"][:FILES])) + more
        lines += ["", f"written by the script before its training call: {wrote}"]
    lines += [style(f"{finding['message']}  {finding['code']}", "yellow") for finding in document["findings"]]
    if document["remembered"]:
        lines.append(style("nothing was tried this time: the same training was planned before", "dim"))
    lines += [style(f"not counted: {one_line(text)}", "dim") for text in document["not_counted"]]
    return "\n".join(lines)


def _tried(document: Mapping[str, Any], width: int, colours: bool) -> list[str]:
    speeds = {trial["rows"]: trial["rows"] / trial["seconds"] for trial in document["tried"] if trial["seconds"]}
    if not speeds:
        return []
    peaks = {trial["rows"]: size(trial["peak_bytes"]) for trial in document["tried"]}
    rows = [[str(rows), peaks[rows], f"{speed:.0f}"] for rows, speed in speeds.items()]
    lines = ["", tables.render(("BATCH TRIED", "PEAK (WITHOUT CODE)", "ROWS A SECOND"), rows, width, colours)]
    lines += _behind_others(document)
    most = document["largest_batch"] or max(speeds)
    fitting = {rows: speed for rows, speed in speeds.items() if rows <= most} or speeds
    fastest, largest = max(fitting, key=lambda rows: fitting[rows]), max(fitting)
    if fitting[fastest] > FASTER * fitting[largest]:
        lines.append(f"the largest is not the fastest: of those tried, {fastest} rows at a time are")
    return lines


def _code(document: Mapping[str, Any]) -> str:
    """What of the need does not have to fit."""
    return f", {size(code)} of it program code, which gives way" if (code := document["code_bytes"]) else ""


def _reserve(document: Mapping[str, Any]) -> str:
    """What of the limit is not for the training."""
    return f", of which {size(reserved)} are kept free" if (reserved := document["reserved_bytes"]) else ""


def _behind_others(document: Mapping[str, Any]) -> list[str]:
    """Why the largest batch is not the largest that ran."""
    largest = document["largest_batch"]
    more = [trial["rows"] for trial in document["tried"] if not trial["alone"] and trial["rows"] > (largest or 0)]
    if not (largest and more):
        return []
    rows = ", ".join(map(str, sorted(set(more))))
    return [f"{rows} rows ran behind other sizes in the same process, and may need more alone: they do not count"]


def _later(document: Mapping[str, Any]) -> str:
    """What a largest batch that was tried for some steps says of the others."""
    if left := document["left_for_later_steps_bytes"]:
        return f", with at least {size(left)} left for what later steps keep"
    if not document["grows"]:
        return ""
    leaner = any(option["name"] == "lean_malloc" for option in document["options"])
    return FIRST_STEPS + (" (lean_malloc: set it, and plan again)" if leaner else "")


def _breakdown(document: Mapping[str, Any], width: int) -> list[str]:
    parts = [(name, value) for name, value in document["breakdown"].items() if value]
    whole = max(1, sum(value for _, value in parts))
    room = max(10, min(40, width - 60))
    return [f"  {WORDS[name]:<40}{size(value):>10}  {'█' * round(room * value / whole)}" for name, value in parts]
