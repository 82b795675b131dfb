"""A verdict on one screen: at most twelve lines, the most telling first.

What is told is chosen for a screen of 118 columns; a narrower one has the same words on more lines.
"""

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
MAX_HEAD = 2
MAX_STORY = 6  # attempts that are told of
MAX_PATCH = 3  # lines of a patch on the user's own code
_LONG_PATH = re.compile(r"(?:/[\w.@:-]+){2,}(?<=.{48})")
_COLOUR = {"finished": "green", "running": "cyan", "died": "red", "unknown": "yellow"}


def render(verdict: Verdict, colours: bool = False, width: int = WIDTH, saved: str = "", goes_on: str = "") -> str:
    """`saved`, `goes_on`: where its newest state is of, and the command that goes on from there."""
    style = Style(colours)
    lines = [*_head(verdict, style, width), *_above(verdict, style, width), *_evidence(verdict, style, width)]
    lines += _below(verdict, style, width)
    if goes_on:
        lines += _row("saved", saved, style, width, 1)
        lines += ["  " + style(f"{'go on':<{_LABEL}}", "dim") + harmless(goes_on)]  # unbroken: it is to be pasted
    return "\n".join(lines)


def _above(verdict: Verdict, style: Style, width: int) -> list[str]:
    lines = _row("where", _where(verdict), style, width, 1)
    if verdict.code_line:
        lines += _row("", "> " + harmless(verdict.code_line), style, width, 1)
    return lines + _row("memory", _memory(verdict), style, width, 1)


def _below(verdict: Verdict, style: Style, width: int) -> list[str]:
    lines = _story(verdict, style, width)
    if verdict.because:
        lines += _row("because", ", ".join(word.replace("_", " ") for word in verdict.because), style, width, 1)
    if verdict.lacked:
        lines += _row("not seen", harmless("; ".join(verdict.lacked)), style, width, 2)
    if verdict.remedies and verdict.outcome == "died":
        first = verdict.remedies[0]
        title, *more = f"{first.title}: {first.how}".split("\n")
        lines += _row("try", harmless(title), style, width, 1)
        for line in more[:MAX_PATCH]:
            lines += _row("", harmless(line), style, width, 2)
    if verdict.outcome in ("died", "unknown"):
        lines += _row("help", f"keepfit explain {verdict.code}; the record: keepfit why {verdict.run}", style, width, 1)
    return lines


def _head(verdict: Verdict, style: Style, width: int) -> list[str]:
    stamp = f"{verdict.code} · {verdict.confidence}"
    summary = _fit("keepfit: " + " ".join(harmless(verdict.summary).split()), MAX_HEAD, WIDTH)
    wrapped = textwrap.wrap(summary, width)
    lines = [style(line, "bold", _COLOUR.get(verdict.outcome, "yellow")) for line in wrapped]
    room = width - len(wrapped[-1]) - len(stamp)
    if room < 2:
        return [*lines, " " * (width - len(stamp)) + style(stamp, "dim")]
    return [*lines[:-1], lines[-1] + " " * room + style(stamp, "dim")]


def _row(label: str, text: str, style: Style, width: int, most: int) -> list[str]:
    """`most`: rows that it may take on a wide screen."""
    if not text:
        return []
    indent = _LABEL + 2
    wrapped = textwrap.wrap(_fit(text, most, WIDTH - indent), width - indent) or [""]
    first = "  " + style(f"{label:<{_LABEL}}", "dim") + wrapped[0]
    return [first, *(" " * indent + line for line in wrapped[1:])]


def _fit(text: str, most: int, room: int) -> str:
    """What of it is told at all, on however many lines."""
    wrapped = textwrap.wrap(text, room)
    if len(wrapped) <= most:
        return text
    return "\n".join([*wrapped[: most - 1], wrapped[most - 1][: room - 1] + "…"])


def _where(verdict: Verdict) -> str:
    where, words = verdict.where, []
    if where.epoch is not None:
        words.append(f"epoch {where.epoch + 1}")  # as Keras prints them; the JSON counts from 0
    if where.step is not None:
        words.append(f"step {where.step + 1}")
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


def _evidence(verdict: Verdict, style: Style, width: int) -> list[str]:
    """As much of it as there is room for, strongest first; whole items, never half of one."""
    plain = Style(False)
    others = [*_head(verdict, plain, WIDTH), *_above(verdict, plain, WIDTH), *_below(verdict, plain, WIDTH)]
    room, lines = max(1, MAX_LINES - len(others)), 0
    rows: list[str] = []
    for item in verdict.evidence:
        text = f"{item.source}: {_shortened(harmless(item.says))}"
        lines += len(_row("", text, plain, WIDTH, 2))
        if lines > room:
            break
        rows += _row("" if rows else "evidence", text, style, width, 2)
    return rows


def _shortened(text: str) -> str:
    """Long paths (containers are named by 64 digits) by their last part; the JSON has them whole."""
    return _LONG_PATH.sub(lambda match: "…/" + match[0].rstrip("/").rsplit("/", 1)[-1], text)
