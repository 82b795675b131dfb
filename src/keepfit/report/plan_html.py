"""A plan in a notebook: a table, and a bar a phase."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ..conditions.reading import size
from .plan_text import OUTLOOK, WORDS

COLOURS = {
    "runtime": "#9aa5b1", "weights": "#2f6db5", "gradients": "#5b9bd5", "optimizer": "#1d3f72",
    "activations": "#e07b39", "workspace": "#f3c19d", "pipeline": "#4f9d69", "preloaded": "#a3d9b1",
}  # fmt: skip

BAR = "position:relative;display:flex;height:14px;max-width:640px;background:#eef0f2"
MARK = "top:-2px;bottom:-2px;border-left:2px solid #b3261e"  # the limit


def render(document: Mapping[str, Any]) -> str:
    low, high = document["interval_bytes"]
    colour = "#2a7a3b" if document["fits"] else "#b3261e"
    headline = (
        f"batch {document['batch_size']}: about <b>{size(document['predicted_peak_bytes'])}</b> "
        f"({size(low)} to {size(high)}) of {size(document['limit_bytes'])} ({escape(str(document['limit_source']))}): "
        f"<b style='color:{colour}'>{OUTLOOK[document['outlook']]}</b>"
    )
    whole = max(document["limit_bytes"], high, *(sum(phase["parts"].values()) for phase in document["phases"]))
    bars = "".join(_bar(phase, whole, document["limit_bytes"]) for phase in document["phases"])
    rows = "".join(
        f"<tr><td>{_dot(name)} {escape(WORDS[name])}</td><td style='text-align:right'>{size(value)}</td></tr>"
        for name, value in document["breakdown"].items()
        if value
    )
    return f"<div style='font-family:sans-serif'><p>{headline}</p>{bars}<table>{rows}</table></div>"


def _bar(phase: Mapping[str, Any], whole: int, limit: int) -> str:
    pieces = "".join(
        f"<div title='{escape(WORDS[name])}: {size(value)}' "
        f"style='width:{100 * value / whole:.2f}%;background:{COLOURS[name]}'></div>"
        for name, value in phase["parts"].items()
        if value
    )
    mark = f"<div style='position:absolute;left:{100 * limit / whole:.2f}%;{MARK}'></div>"
    return (
        f"<div style='margin:4px 0'>{escape(phase['name'])}, {size(sum(phase['parts'].values()))}"
        f"<div style='{BAR}'>{pieces}{mark}</div></div>"
    )


def _dot(name: str) -> str:
    return f"<span style='display:inline-block;width:10px;height:10px;background:{COLOURS[name]}'></span>"
