"""The training exploded: loss or gradients grew a thousandfold until they were no numbers any more.

## What happened
Every sample of the batch is bad, and loss or gradient norm had been growing: not the data but the weights are at
fault. Mostly the learning rate is too high; in recurrent nets a product of many steps.

## How keepfit knows
Loss and gradient norm of the last 512 steps are remembered. Their last finite value was at least 1,000 times the
least before it.

## What to do
A lower learning rate, a warm-up, `global_clipnorm`. After ten such steps in a row keepfit goes back to a saved state
and halves the learning rate (`--on-nan rollback` does so at once).
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import OWN_ACT, Condition, Diagnosis, Report
from . import poison


def watch(report: Report) -> str | None:
    return f"the training exploded: {poison.message(report)}" if poison.kind_of(report) == poison.EXPLODED else None


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return poison.ended_it(attempt, poison.EXPLODED)


def because(attempt: Attempt, cause: str) -> Evidence | None:
    if cause != "exploding_gradients":
        return None
    report = next((r for r in reversed(attempt.reports) if poison.kind_of(r) == poison.EXPLODED), None)
    if report is None:
        return None
    return Evidence("agent", f"the loss grew {float(report.get('loss_grew') or 0):.3g} times before", "likely")


CONDITION = Condition(
    code="KF204",
    name="training-exploded",
    title="loss or gradients grew until they were no numbers any more",
    cause="exploding_gradients",
    root="learning_rate_too_high",
    specificity=OWN_ACT,
    severity="error",
    watch=watch,
    autopsy=autopsy,
    because=because,
    remedies=(Remedy("lower the learning rate, or clip", "keepfit run --clip auto -- …"),),
)
