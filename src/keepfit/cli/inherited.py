"""What keepfit was started with, before a shell and Python changed it: it goes on to the command untouched.

A shell drops names that it could not use itself, adds PWD and counts SHLVL up; Python ignores SIGPIPE and SIGXFSZ and
may set LC_CTYPE. So whoever starts our interpreter (bin/keepfit, __main__) puts the environment as it was, and the
mask of signals that were ignored, into one variable.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode

HANDED = "KEEPFIT_HANDED"  # mask of ignored signals, in hex : the environment block, in base64
LARGEST = 131000  # bytes that one variable can hold


def restore() -> int:
    """Make `os.environ` what it was; returns the mask of signals that were ignored (0: not known)."""
    handed = os.environ.pop(HANDED, "")
    mask, _, block = handed.partition(":")
    try:
        ignored, entries = int(mask or "0", 16), b64decode(block, validate=True).split(b"\0")
    except ValueError:
        return 0
    known = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
    if known:
        os.environ.clear()
        os.environb.update(known)
        os.environ.pop(HANDED, None)
    return ignored


def handed_over() -> dict[str, str]:
    """The environment of an interpreter that is to call `restore`: ours, with what Python has not added to it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            block = b64encode(file.read()).decode()
    except OSError:
        block = ""
    handed = {HANDED: f":{block}"} if len(block) < LARGEST else {}
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
