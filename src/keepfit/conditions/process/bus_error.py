"""A bus error: a mapped file was shorter than its mapping, or memory behind it could not be had.

## What happened
SIGBUS comes from touching a mapped page that has nothing behind it: a memory-mapped data file that
somebody truncated or replaced, a file system that ran full under a sparse mapping. A full
`/dev/shm` does it too, and is told apart (KF105).

## How keepfit knows
*certain*: it ended by SIGBUS, and `/dev/shm` had space left.

## What to do
Do not rewrite data files in place while a training maps them: write beside, then rename.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import SIGNAL, Condition, Diagnosis
from .signals import ended_by

SIGBUS = 7


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return ended_by(attempt, SIGBUS, "ended by SIGBUS: a bus error")


CONDITION = Condition(
    code="KF503",
    name="bus-error",
    title="a bus error: a mapped page had nothing behind it",
    cause="bus_error",
    specificity=SIGNAL,
    autopsy=autopsy,
    remedies=(Remedy("never rewrite mapped data in place", "write beside it, then os.replace()"),),
)
