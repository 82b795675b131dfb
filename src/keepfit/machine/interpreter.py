"""Python as command lines start it: which of its options keep the agent out."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Sequence

NAME = re.compile(r"python[0-9.]*t?d?")  # its interpreters, as they are called
KEEP_OUT = "EIS"  # options that ignore the environment, or the folder in it by which the agent comes
_FIRST_LINE = 256  # bytes of a script in which its interpreter is named


def options(argv: Sequence[str]) -> str:
    """The letters of a Python's own options, before its script; empty where it has none, or it is no Python."""
    words = iter(argv)
    program = next(words, "")
    if os.path.basename(program) == "env":
        program = _behind_env(words)
    if not NAME.fullmatch(os.path.basename(program)):
        return ""
    found = ""
    for word in words:
        if word == "--check-hash-based-pycs":
            next(words, None)
            continue
        if not word.startswith("-") or word in ("-", "--"):
            break
        letters = "" if word.startswith("--") else word[1:]
        for place, letter in enumerate(letters, 1):
            found += letter
            if letter in "cm":
                return found
            if letter in "WX":  # the rest of it, or the next word, is what it is given
                if place == len(letters):
                    next(words, None)
                break
    return found


def of_our_own(module: str, *words: str) -> list[str]:
    """A command that calls `main` of a module of ours with these words, in a Python that is as deaf as this one."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; sys.exit(main(*sys.argv[1:]))"
    return [sys.executable, "-I", "-S", "-c", code, *words]


def _behind_env(words: Iterable[str]) -> str:
    return next((word for word in words if not word.startswith("-") and "=" not in word), "")


def options_of_file(path: str, argv: Sequence[str]) -> str:
    """The same of what is executed: a script may name its interpreter, and that one's options, in its first line."""
    try:
        with open(path, "rb") as file:
            first = file.read(_FIRST_LINE).split(b"\n", 1)[0]
    except OSError:
        first = b""
    if not first.startswith(b"#!"):
        return options(argv)
    import shlex

    try:
        words = shlex.split(first[2:].decode(errors="replace"))
    except ValueError:
        return ""
    return options([word for word in words if word != "-S" or "env" not in words[0]])


def keeps_out(letters: str) -> str | None:
    """The option among them that does."""
    return next((letter for letter in letters if letter in KEEP_OUT), None)


def why_not_to_be_trusted(path: str) -> str | None:
    """Why a program that somebody has written down is not to be run as Python; None where it may be.

    It has to be called Python, and nobody but us and the administrator may be able to change it.
    """
    real = os.path.realpath(path)
    if not os.path.isabs(path) or not os.access(real, os.X_OK) or not os.path.isfile(real):
        return "is not there any more"
    if not NAME.fullmatch(os.path.basename(path)):
        return "is not called Python"
    for place in (real, *_above(real)):
        known = os.stat(place)
        open_to_all = known.st_mode & stat.S_IWOTH and not known.st_mode & stat.S_ISVTX
        if open_to_all or known.st_uid not in (0, os.geteuid()):
            return f"could have been changed by others ({place})"
    return None


def _above(path: str) -> Iterable[str]:
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent
