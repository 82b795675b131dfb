"""What keepfit was started with, before a shell and Python changed it: it goes on to the command untouched.

A shell drops names that it could not use itself, adds PWD and counts SHLVL up; Python ignores SIGPIPE and SIGXFSZ and
may set LC_CTYPE. So whoever starts our interpreter (bin/keepfit, __main__) puts the environment as it was, and the
mask of signals that were ignored, into one variable.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode

HANDED = "KEEPFIT_HANDED"  # mask of ignored signals, in hex : the environment block, in base64, or its first piece
PIECE, MOST = 100_000, 8  # bytes of a piece, for one variable holds 128 KiB; and pieces, for all of them 2 MiB at most


def restore() -> int:
    """Make `os.environ` what it was; returns the mask of signals that were ignored (0: not known)."""
    handed = os.environ.pop(HANDED, "")
    handed += "".join(os.environ.pop(f"{HANDED}_{number}", "") for number in range(1, MOST))
    mask, _, block = handed.partition(":")
    try:
        ignored, entries = int(mask or "0", 16), b64decode(block, validate=True).split(b"\0")
    except ValueError:
        return 0
    known = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
    if known:
        os.environ.clear()
        os.environb.update(known)
        for name in [name for name in os.environ if name.startswith(HANDED)]:
            del os.environ[name]
    return ignored


def handed_over() -> dict[str, str]:
    """The environment of an interpreter that is to call `restore`: ours, with what Python has not added to it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            block = b64encode(file.read()).decode()
    except OSError:
        block = ""
    pieces = [block[start : start + PIECE] for start in range(0, len(block), PIECE)] or [""]
    handed = {HANDED: f":{pieces[0]}"} | {f"{HANDED}_{n}": piece for n, piece in enumerate(pieces) if n}
    handed = handed if len(pieces) <= MOST else {}
    return {**os.environ, **handed}


def fill_standard_descriptors() -> frozenset[int]:
    """Started with 0, 1 or 2 closed, the next pipe we open would take that number and be mistaken for it.

    Returns those that were.
    """
    closed = set()
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            closed.add(fd)
    return frozenset(closed)
