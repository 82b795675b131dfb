"""It finished.

## What happened
The command ended by itself with exit status 0.

## How keepfit knows
*certain*: its parent saw the status. *likely*: the supervisor was gone, but the agent saw the
interpreter end without an error.

## What to do
Nothing.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence
from ..catalogue import OWN_ACT, Condition, Diagnosis
from ..reading import by_exit


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if attempt.exit is not None and attempt.exit.status == 0:
        return Diagnosis("certain", "finished", (by_exit(attempt),))
    unknown = attempt.exit is None or (attempt.exit.status is None and attempt.exit.signal is None)
    if unknown and attempt.ended_well and not attempt.alive:
        words = Evidence("agent", "the interpreter reached its end without an error", "likely")
        return Diagnosis("likely", "finished, as far as the agent saw", (words,))
    return None


CONDITION = Condition(
    code="KF500",
    name="finished",
    title="it finished",
    cause="finished",
    specificity=OWN_ACT,
    severity="note",
    autopsy=autopsy,
)
