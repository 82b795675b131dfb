"""A segmentation fault: native code touched memory it may not.

## What happened
Python itself hardly ever does this; an extension (a framework, a codec, a driver) did, or two of
them that do not fit together. A failed allocation inside TensorFlow on the CPU often ends like this
too.

## How keepfit knows
*certain*: it ended by SIGSEGV. Where the agent was in, the Python stack of that moment is in the
record and the user's own line is shown.

## What to do
The line shown tells which library. Update or pin it; if memory was short, see the memory lines
first.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import SIGNAL, Condition, Diagnosis
from .signals import ended_by

SIGSEGV = 11


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return ended_by(attempt, SIGSEGV, "ended by SIGSEGV: a segmentation fault")


CONDITION = Condition(
    code="KF501",
    name="segmentation-fault",
    title="a segmentation fault in native code",
    cause="segfault",
    specificity=SIGNAL,
    autopsy=autopsy,
    remedies=(Remedy("see the stack in the record", "keepfit why --json, or stacks/ in the run's directory"),),
)
