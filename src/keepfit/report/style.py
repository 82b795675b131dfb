"""Colours, only on a terminal, and text that cannot hijack one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import IO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# Control characters, those that turn the writing round, and halves of letters, which no output can take.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def wanted(stream: IO[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Colours: on a terminal, unless NO_COLOR; or where FORCE_COLOR asks for them."""
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (stream.isatty() and environment.get("TERM") != "dumb")


def width(stream: IO[str], widest: int = 118) -> int:
    """Columns to lay out for: the terminal's, up to what reads well."""
    try:
        return max(60, min(widest, os.get_terminal_size(stream.fileno()).columns))
    except (OSError, ValueError):
        return widest


def harmless(text: str) -> str:
    """Text from outside (logs, names, arguments) with control characters shown, not obeyed."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def one_line(text: str) -> str:
    """The same, for what has one line to itself: a name with a line break in it does not make two."""
    return harmless(text).replace("\n", "\\n")


class Style:
    def __init__(self, colours: bool) -> None:
        self._colours = colours

    def __call__(self, text: str, *names: str) -> str:
        if not self._colours or not text:
            return text
        codes = ";".join(_CODES[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"
