"""Steps that were not finite, as the agent reports them: what kind they are, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...facts import Attempt, Evidence
from ..catalogue import Diagnosis, Report
from ..reading import by_exit

GREW = 1000.0  # times as large as before: no sample did that

INPUT, OPERATION, LOSS, EXPLODED = "input", "operation", "loss", "exploded"


def kind_of(report: Report) -> str | None:
    """Which of the four it is; None for another report, or a validation's."""
    if report.get("kind") != "numbers-poison" or report.get("step") != "train":
        return None
    phase = report.get("phase")
    if phase in ("input", "target"):
        return INPUT
    if exploded(report):
        return EXPLODED
    return OPERATION if phase in ("forward", "backward", "loss") and report.get("op") else LOSS


def exploded(report: Report) -> bool:
    """Every sample is bad, and the numbers had been growing: the weights are at fault, not the data."""
    grew = max(float(report.get("loss_grew") or 0.0), float(report.get("norm_grew") or 0.0))
    return bool(report.get("every") or report.get("phase") == "weights") and grew >= GREW


def culprit(report: Report) -> str:
    """`sample 812, feature 3 of x is nan`, `Log in layer dense_2, from sample 812`, …"""
    phase, who = report.get("phase"), samples(report)
    if phase in ("input", "target"):
        entry = report.get("entry") or []
        feature = f"feature {_index(entry)} of {report.get('name')}" if entry else str(report.get("name"))
        several = ", in the first of them" if len(report.get("rows") or []) > 1 and not report.get("every") else ""
        return f"{who}: {feature} is {report.get('value')}{several}"
    if phase == "weights":
        return f"the weights of layer {report.get('layer')} are not finite"
    place = f" of layer {report['layer']}" if report.get("layer") else ""
    way = {"forward": "", "loss": ", in the loss", "backward": ", on the way back"}.get(str(phase), "")
    if report.get("op"):
        return f"{report['op']}{place}{way}, from {who}"
    if names := report.get("unseen"):
        return f"the gradient of {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    return "the loss" if report.get("loss") is None else "the gradients"


def samples(report: Report) -> str:
    """By their index in the data where it is known, else by their row in the batch."""
    rows = report.get("rows") or []
    if report.get("every"):
        return "every sample of the batch"
    found = [indices[0] for indices in report.get("samples") or [] if indices]
    if found:
        return _list("sample", found)
    if elements := list(report.get("elements") or []):
        return f"{_list('element', elements)} of the dataset"
    return f"{_list('row', rows)} of the batch" if rows else "an unknown sample"


def _list(word: str, numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:3])
    more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
    return f"{word}{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _index(entry: list[int]) -> str:
    return str(entry[0]) if len(entry) == 1 else str(tuple(entry))


def place(report: Report) -> str:
    epoch, batch = report.get("epoch"), report.get("batch")
    words = []
    if isinstance(epoch, int) and epoch >= 0:
        words.append(f"epoch {epoch + 1}")
    if isinstance(batch, int) and batch >= 0:
        words.append(f"batch {batch + 1}")
    return ", ".join(words) or "a step"


_DID = {
    "skip": "was not applied",
    "rollback": "was not applied, and the training went back to a saved state",
    "stop": "was not applied, and the training was ended",
    "ended": "was not applied, and the script ended the training",
}


def message(report: Report) -> str:
    """The line a person sees."""
    count = int(report.get("count") or 1)
    so_far = f" ({count} so far)" if count > 1 else ""
    if count == 1 and report.get("hidden"):
        so_far = f"; callbacks are not told (--on-nan {report['hidden']})"
    return f"{place(report)} {_DID.get(str(report.get('did')), 'was not applied')}: {culprit(report)}{so_far}"


def ended_it(attempt: Attempt, kind: str) -> Diagnosis | None:
    """The training was ended because of such a step: by `--on-nan stop`, or because nothing helped."""
    last = [report for report in attempt.reports if report.get("kind") == "numbers-poison"]
    stop = next((report for report in reversed(last) if report.get("did") in ("stop", "ended")), None)
    told = first_known(last) if stop is not None else None
    if stop is None or told is None or kind_of(told) != kind or attempt.alive or _went_on(attempt, stop):
        return None
    script = stop.get("did") == "ended"
    summary = f"the training was ended{' by the script' if script else ''} at {place(stop)}: {culprit(told)}"
    evidence = (Evidence("agent", f"loss or gradients were not finite; {culprit(told)}"), by_exit(attempt))
    where: dict[str, Any] = {"phase": "train", "layer": told.get("layer"), "op": told.get("op")}
    if isinstance(stop.get("epoch"), int):
        where.update(epoch=stop["epoch"], step=stop.get("batch"))
    return Diagnosis("certain", summary, evidence, where)


def _went_on(attempt: Attempt, stop: Report) -> bool:
    """Whether that was not the end: something trained after it, or the process died of something else."""
    if attempt.exit is not None and attempt.exit.signal is not None:
        return True
    if attempt.error is not None and attempt.error.type != stop.get("ended_by"):
        return True
    steps = stop.get("steps")
    return isinstance(steps, int) and any(beat.steps > steps for beat in attempt.beats[-1:])


def first_known(reports: list[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """What began it: the first of the last row of such steps that tells a culprit, else the last."""
    known = [r for r in reports if r.get("step") == "train" and r.get("phase") not in (None, "unknown")]
    trained = [report for report in reports if report.get("step") == "train"]
    return known[-1] if known else trained[-1] if trained else None
