"""A worker died first.

## What happened
A child process (a data worker, a pool member) was killed, and the main process failed because of
it.

## How keepfit knows
*likely*: the kernel named a child of this tree, or the main process' own error is about a worker
that is gone.

## What to do
Look at the worker's reason: the verdict's cause is about it.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition
from ..reading import CRASHES, kernel_kill, said

_TEXT = re.compile(
    r"BrokenProcessPool|A process in the process pool was terminated abruptly|"
    r"DataLoader worker .* (?:exited|is killed)|"
    r"worker .* died|WorkerLostError|terminated unexpectedly",
    re.IGNORECASE,
)


def because(attempt: Attempt, cause: str) -> Evidence | None:
    if cause == "finished":
        return None
    kill = kernel_kill(attempt)
    if kill is not None and kill.pid != attempt.pid:
        return Evidence("kernel", f"the kernel killed a child, {kill.name} (pid {kill.pid})", "likely")
    line = said(attempt, _TEXT, CRASHES)
    return Evidence("log", f"“{line}”", "likely") if line else None


CONDITION = Condition(
    code="KF512",
    name="worker-died",
    title="a worker died first",
    root="worker_died",
    because=because,
    remedies=(Remedy("fewer or lighter workers", "each has its own memory"),),
)
