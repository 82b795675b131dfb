"""Unknown: the record does not show why.

## What happened
Something ended it that left no trace keepfit could read.

## How keepfit knows
It does not, and says so. What it could not see is listed under "lacked".

## What to do
`keepfit doctor` says what would let it see more on this machine.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import BARE, Condition, Diagnosis
from ..reading import by_exit, signal_name

SIGPIPE = 13


def autopsy(attempt: Attempt) -> Diagnosis | None:
    number = attempt.exit.signal if attempt.exit else None
    summary = f"ended by {signal_name(number)}, reason unknown" if number else "the record does not show why it ended"
    if number == SIGPIPE:
        summary = "ended by SIGPIPE: whoever read its output went away"
    return Diagnosis("unknown", summary, (by_exit(attempt),))


CONDITION = Condition(
    code="KF599",
    name="unknown",
    title="the record does not show why",
    cause="unknown",
    specificity=BARE,
    severity="note",
    autopsy=autopsy,
    remedies=(Remedy("let keepfit see more", "keepfit doctor"),),
)
