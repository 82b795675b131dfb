"""A Python exception ended it.

## What happened
An exception was not caught. The verdict names its type, its message and the last line of *your own*
code on the way to it; frames of libraries are left out.

## How keepfit knows
*certain*: the agent read it from the interpreter at its end. *likely*: it was read from the last
traceback in the output.

## What to do
The line shown is where to look. It is not retried: the same code would fail the same way.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import EXCEPTION, Condition, Diagnosis
from ..reading import at, by_exit, error_evidence, error_strength, failed


def autopsy(attempt: Attempt) -> Diagnosis | None:
    error = attempt.error
    if error is None or not failed(attempt):
        return None
    kind = error.type.rsplit(".", 1)[-1]
    first = (error.message.splitlines() or [""])[0][:140]
    summary = f"a Python exception: {kind}" + (f": {first}" if first else "")
    return Diagnosis(error_strength(error), summary, (error_evidence(error), by_exit(attempt)), at(error.frame))


CONDITION = Condition(
    code="KF510",
    name="python-exception",
    title="a Python exception ended it",
    cause="python_error",
    specificity=EXCEPTION,
    autopsy=autopsy,
    remedies=(Remedy("look at the line shown", "the same code would fail the same way again"),),
)
