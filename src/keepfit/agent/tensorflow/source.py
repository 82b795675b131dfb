"""The user's own lines of a hand-written loop, so that advice can be given on them."""

import linecache
import re
import sys

from ..lifeline import is_users

_TAPE = re.compile(r"\bGradientTape\s*\(")
_GRADIENT = re.compile(r"\.gradient\s*\(\s*(?P<loss>\w+)")
_GENERATED = "__autograph_generated_file"
MOST_LINES = 20_000


def describe_loop(heart):
    """Find the loop in the user's file and write its lines down, once."""
    if heart.journal is None:
        return
    try:
        frame = sys._getframe(1)
        while frame is not None and (_GENERATED in frame.f_code.co_filename or not is_users(frame.f_code.co_filename)):
            frame = frame.f_back
        if frame is not None:
            heart.journal.write("loop", **_described(frame.f_code.co_filename, frame.f_lineno))
    except Exception as error:
        heart.failed("source", error)


def _described(file, line):
    lines = linecache.getlines(file)[:MOST_LINES]
    line = _loop_above(lines, line)
    tape = _first(lines, _TAPE, 0)
    gradient = _first(lines, _GRADIENT, tape)
    name = _GRADIENT.search(lines[gradient])["loss"] if gradient < len(lines) else "loss"
    loss = _first(lines, re.compile(rf"^\s*{name}\s*=[^=]"), tape)
    return {
        "file": file,
        "loop_line": line,
        "loop_code": lines[line - 1].strip() if 0 < line <= len(lines) else "",
        **_line("tape", lines, tape),
        **_line("loss", lines, loss),
        **_line("gradient", lines, gradient),
    }


def _loop_above(lines, line):
    """The line of the nearest `for` that a line stands in; the line itself where there is none."""
    indent = len(lines[line - 1]) - len(lines[line - 1].lstrip()) if 0 < line <= len(lines) else 0
    for number in range(min(line, len(lines)), 0, -1):
        code = lines[number - 1]
        outside = len(code) - len(code.lstrip()) < indent or number == line
        if outside and code.lstrip().startswith("for "):
            return number
    return line


def _first(lines, pattern, start):
    return next((i for i in range(start, len(lines)) if pattern.search(lines[i])), len(lines))


def _line(name, lines, index):
    found = index < len(lines)
    return {f"{name}_line": index + 1 if found else 0, f"{name}_code": lines[index].strip() if found else ""}
