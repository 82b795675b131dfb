"""The loss or the gradients were not finite, and where that began is not known.

## What happened
A step's loss or gradients were NaN or Inf. The update was not applied. When the batch was run again, everything was
finite (another order of summation, XLA's arithmetic), or it could not be run again.

## How keepfit knows
Loss and gradients are looked at inside the step.

## What to do
If it stays rare: nothing, one batch was left out. If it comes back, lower the learning rate or clip the gradients
(`--clip auto`).
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import OWN_ACT, Condition, Diagnosis, Report
from . import poison


def watch(report: Report) -> str | None:
    return poison.message(report) if poison.kind_of(report) == poison.LOSS else None


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return poison.ended_it(attempt, poison.LOSS)


CONDITION = Condition(
    code="KF203",
    name="loss-not-finite",
    title="loss or gradients were not finite",
    cause="nan_loss",
    specificity=OWN_ACT,
    severity="error",
    watch=watch,
    autopsy=autopsy,
    remedies=(Remedy("lower the learning rate, or clip", "keepfit run --clip auto -- …"),),
)
