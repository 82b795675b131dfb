"""How our own processes stand in the system: whose orphans they take, what they are called, when they die."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 4, 15, 36


def have_room_for_files(needed: int) -> bool:
    """Whether so many descriptors can be had, for which our own limit is raised if need be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed if hard == -1 else min(needed, hard), hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft == resource.RLIM_INFINITY or soft >= needed


def become_subreaper() -> None:
    """Orphans of the command come to us instead of to init, so that the tree stays whole."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """In a child that was just forked: be killed when its parent is gone, however that came."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before it was asked for
        os.kill(os.getpid(), signal.SIGKILL)


def be_called(name: str) -> None:
    """Take a name of our own in `ps`.

    A judge whose command line still held the user's would die with it under `pkill -9 -f train.py`, and the
    death that it is there to explain would stay unexplained.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError, IndexError):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end
        if 0 < start < end:
            ctypes.memset(start, 0, end - start)
            ctypes.memmove(start, name.encode(), min(len(name), end - start - 1))


def step_aside() -> None:
    """Never interrupt the command's running thread: wait for the end of its slice, which is milliseconds.

    The share of the CPU stays the same, so that a machine under full load still gets its samples in time.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def shy_from_the_kernel() -> int | None:
    """Lower our own chance of being the kernel's victim; returns the score the command shall keep."""
    try:
        with open("/proc/self/oom_score_adj") as file:
            before = int(file.read())
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(max(-1000, min(before, -900))))
        return before
    except (OSError, ValueError):
        return None  # not allowed: an ordinary user may only raise it


def end_by(number: int) -> NoReturn:
    """By the signal that ended the command: a shell's loop stops at Ctrl-C only where it sees its child end of it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # the command has left its core: ours is of no interest
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
        os.kill(os.getpid(), number)
    os._exit(128 + number)  # the first process of a container cannot be ended by a signal of its own


def ignore_terminal_signals() -> None:
    """In the judge: what the user types is for the command, not for us."""
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGTTOU,
        signal.SIGTSTP,
    ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
