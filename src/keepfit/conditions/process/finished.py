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
from ..reading import by_exit, size


def what_was_done(attempt: Attempt) -> str:
    """In words, where keepfit had a hand in it."""
    words = []
    if attempt.changed:
        words.append(f"at attempt {attempt.n} ({attempt.changed})")
    split = next((s for s in reversed(attempt.splittings) if s.step == "train" and not s.trial), None)
    if split is not None and split.rows < split.batch:
        words.append(f"batch {split.batch} ran as {split.parts} micro-batches of {split.rows}")
        if attempt.limit is not None:
            words.append(f"peak {size(attempt.peak)} of {size(attempt.limit.bytes)}")
    return "".join(f"; {word}" for word in words)


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if attempt.exit is not None and attempt.exit.status == 0:
        return Diagnosis("certain", "finished" + what_was_done(attempt), (by_exit(attempt),))
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
