"""The exception that ended a Python program, read back from what it printed."""

from __future__ import annotations

import re

from ..facts import Frame, PythonError

_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.*))?$')
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_LAST_OF_CHAIN = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_ERRNO = re.compile(r"\[Errno (\d+)\]")


def last_traceback(text: str) -> PythonError | None:
    """The last complete traceback that nothing but blank lines and its own message follow closely.

    A traceback in the middle of a log was survived; one that many ordinary lines follow is not why the
    program ended.
    """
    start = text.rfind(_HEAD)
    if start < 0:
        return None
    lines = text[start + len(_HEAD) :].splitlines()[1:]
    frames: list[Frame] = []
    for index, line in enumerate(lines):
        if match := _FRAME.match(line):
            after = lines[index + 1] if index + 1 < len(lines) else ""
            code = after.strip() if after.startswith("    ") and not _FRAME.match(after) else ""
            frames.append(Frame(match["file"], int(match["line"]), match["function"] or "", code))
        elif line and not line[0].isspace() and (match := _ERROR.match(line)):
            following = [rest for rest in lines[index + 1 :] if rest.strip()]
            if len(following) > 20:
                return None
            message = "\n".join([match["message"] or "", *following[:5]]).strip()
            number = _ERRNO.search(message)
            return PythonError(
                type=match["type"],
                message=message,
                frame=_own(frames),
                errno=int(number[1]) if number else None,
                told_by="log",
                chain=tuple(_chain(text[:start])),
            )
    return None


def _own(frames: list[Frame]) -> Frame | None:
    own = [f for f in frames if "site-packages" not in f.file and "/lib/python" not in f.file]
    chosen = own or frames
    return chosen[-1] if chosen else None


def _chain(before: str) -> list[str]:
    """Types of the exceptions the last one was raised from."""
    found = []
    stripped = before.rstrip()
    for mark in _LAST_OF_CHAIN:
        if stripped.endswith(mark):
            earlier = stripped[: -len(mark)].rstrip().splitlines()
            if earlier and (match := _ERROR.match(earlier[-1])):
                found.append(match["type"])
    return found
