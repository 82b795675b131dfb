"""Outside calls that may never return (a dead NFS server, a wedged driver), bounded in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def call(work: Callable[[], T], seconds: float) -> T | None:
    """`work()`, or None when it raised an OSError or did not come back in time.

    A thread stuck in the kernel cannot be ended; it is a daemon and is left behind.
    """
    import threading

    answer: list[T] = []

    def run() -> None:
        try:
            answer.append(work())
        except OSError:
            return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return answer[0] if answer else None


def output(argv: Sequence[str], seconds: float) -> str | None:
    """What a helper program prints, or None. One that hangs is killed and, if unkillable, abandoned."""
    import subprocess

    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return None
    return text.decode(errors="replace") if process.returncode == 0 else None
