"""A verdict on one screen: at most twelve lines, the most telling first."""

from __future__ import annotations

import textwrap

from ..facts import Verdict
from .style import Style, harmless

MAX_LINES = 12
WIDTH = 118
_LABEL = 11
_COLOUR = {"finished": "green", "running": "cyan", "died": "red", "unknown": "yellow"}


def render(verdict: Verdict, colours: bool = False, width: int = WIDTH) -> str:
    style = Style(colours)
    head = _head(verdict, style, width)
    lines: list[str] = []
    lines += _row("where", _where(verdict), style, width, 1)
    if verdict.code_line:
        lines += _row("", "> " + harmless(verdict.code_line), style, width, 1)
    lines += _evidence(verdict, style, width)
    if verdict.because:
        lines += _row("because", ", ".join(word.replace("_", " ") for word in verdict.because), style, width, 1)
    tail: list[str] = []
    if verdict.lacked:
        tail += _row("not seen", harmless("; ".join(verdict.lacked)), style, width, 2)
    if verdict.remedies and verdict.outcome == "died":
        first = verdict.remedies[0]
        tail += _row("try", harmless(f"{first.title}: {first.how}"), style, width, 1)
    if verdict.outcome in ("died", "unknown"):
        tail += _row("help", f"keepfit explain {verdict.code}; the record: keepfit why {verdict.run}", style, width, 1)
    return "\n".join([head, *lines[: MAX_LINES - 1 - len(tail)], *tail])


def _head(verdict: Verdict, style: Style, width: int) -> str:
    stamp = f"{verdict.code} · {verdict.confidence}"
    summary = f"keepfit: {harmless(verdict.summary)}"
    room = width - len(stamp) - 2
    if len(summary) > room:
        summary = summary[: room - 1] + "…"
    pad = " " * (width - len(summary) - len(stamp))
    return style(summary, "bold", _COLOUR.get(verdict.outcome, "yellow")) + pad + style(stamp, "dim")


def _row(label: str, text: str, style: Style, width: int, most: int) -> list[str]:
    if not text:
        return []
    wrapped = textwrap.wrap(text, width - _LABEL - 2) or [""]
    if len(wrapped) > most:
        wrapped = wrapped[:most]
        wrapped[-1] = wrapped[-1][: width - _LABEL - 3] + "…"
    first = "  " + style(f"{label:<{_LABEL}}", "dim") + wrapped[0]
    return [first, *(" " * (_LABEL + 2) + line for line in wrapped[1:])]


def _where(verdict: Verdict) -> str:
    where, words = verdict.where, []
    if where.epoch is not None:
        words.append(f"epoch {where.epoch}")
    if where.step is not None:
        words.append(f"step {where.step}")
    if where.phase:
        words.append({"train": "training"}.get(where.phase, where.phase))
    if where.process == "child":
        words.append(f"in a child process (pid {where.pid})")
    if where.file:
        words.append(f"{harmless(where.file)}:{where.line}")
    if len(verdict.attempts) > 1:
        words.append(f"attempt {where.attempt}")
    if not words and where.pid:
        words.append(f"pid {where.pid}")
    return ", ".join(words)


def _evidence(verdict: Verdict, style: Style, width: int) -> list[str]:
    lines: list[str] = []
    for index, item in enumerate(verdict.evidence[:5]):
        lines += _row("evidence" if index == 0 else "", f"{item.source}: {harmless(item.says)}", style, width, 2)
    return lines
