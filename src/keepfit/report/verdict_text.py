"""A verdict on one screen: at most twelve lines, the most telling first."""

from __future__ import annotations

import re
import textwrap
from collections import Counter

from ..conditions.reading import size
from ..facts import Verdict
from .style import Style, harmless

MAX_LINES = 12
WIDTH = 118
_LABEL = 11
MAX_STORY = 6  # attempts that are told of
MAX_PATCH = 3  # lines of a patch on the user's own code
_LONG_PATH = re.compile(r"(?:/[\w.@:-]+){2,}(?<=.{48})")
_COLOUR = {"finished": "green", "running": "cyan", "died": "red", "unknown": "yellow"}


def render(verdict: Verdict, colours: bool = False, width: int = WIDTH) -> str:
    style = Style(colours)
    above = _row("where", _where(verdict), style, width, 1)
    if verdict.code_line:
        above += _row("", "> " + harmless(verdict.code_line), style, width, 1)
    above += _row("memory", _memory(verdict), style, width, 1)
    below = _story(verdict, style, width)
    if verdict.because:
        below += _row("because", ", ".join(word.replace("_", " ") for word in verdict.because), style, width, 1)
    if verdict.lacked:
        below += _row("not seen", harmless("; ".join(verdict.lacked)), style, width, 2)
    if verdict.remedies and verdict.outcome == "died":
        first = verdict.remedies[0]
        title, *more = f"{first.title}: {first.how}".split("\n")
        below += _row("try", harmless(title), style, width, 1)
        for line in more[:MAX_PATCH]:
            below += _row("", harmless(line), style, width, 2)
    if verdict.outcome in ("died", "unknown"):
        below += _row("help", f"keepfit explain {verdict.code}; the record: keepfit why {verdict.run}", style, width, 1)
    room = max(1, MAX_LINES - 1 - len(above) - len(below))
    return "\n".join([_head(verdict, style, width), *above, *_evidence(verdict, style, width, room), *below])


def _head(verdict: Verdict, style: Style, width: int) -> str:
    stamp = f"{verdict.code} · {verdict.confidence}"
    summary = "keepfit: " + " ".join(harmless(verdict.summary).split())
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


def _memory(verdict: Verdict) -> str:
    """Forecast against fact, where there was a forecast."""
    known = verdict.memory
    if not known.forecast_bytes or not known.peak_bytes:
        return ""
    return f"forecast {size(known.forecast_bytes)}, peak {size(known.peak_bytes)}, limit {size(known.limit_bytes)}"


def _story(verdict: Verdict, style: Style, width: int) -> list[str]:
    """The attempts, where there was more than one: what ended each, and what was changed for it."""
    attempts = verdict.attempts
    if len(attempts) < 2:
        return []
    shown = attempts if len(attempts) <= MAX_STORY else attempts[1 - MAX_STORY :]
    lines = []
    if len(shown) < len(attempts):
        causes = Counter(attempt.cause for attempt in attempts[: -len(shown)])
        earlier = ", ".join(f"{count} × {cause}" for cause, count in causes.most_common())
        lines.append(f"{len(attempts) - len(shown)} before: {earlier}")
    for attempt in shown:
        changed = f", {attempt.changed}" if attempt.changed else ""
        lines.append(f"{attempt.n}: {attempt.cause} after {attempt.seconds:.0f} s{harmless(changed)}")
    rows = []
    for index, line in enumerate(lines):
        rows += _row("" if index else "attempts", line, style, width, 1)
    return rows


def _evidence(verdict: Verdict, style: Style, width: int, room: int) -> list[str]:
    """As much of it as there is room for, strongest first; whole items, never half of one."""
    lines: list[str] = []
    for item in verdict.evidence:
        label = "" if lines else "evidence"
        rows = _row(label, f"{item.source}: {_shortened(harmless(item.says))}", style, width, 2)
        if len(lines) + len(rows) > room:
            break
        lines += rows
    return lines


def _shortened(text: str) -> str:
    """Long paths (containers are named by 64 digits) by their last part; the JSON has them whole."""
    return _LONG_PATH.sub(lambda match: "…/" + match[0].rstrip("/").rsplit("/", 1)[-1], text)
