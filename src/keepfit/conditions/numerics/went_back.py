"""The training went back to a saved state, with a lower learning rate.

## What happened
Ten steps in a row were not finite (or one was, with `--on-nan rollback`). Weights and optimizer are those of a saved
state from before, the learning rate was halved, and the training goes on with the next batch.

## How keepfit knows
It did it.

## What to do
Take the lower learning rate as advice.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "numbers-rollback":
        return None
    rate = report.get("rate")
    cut = f"the learning rate is {rate:.3g} now" if isinstance(rate, float) else "its schedule has the learning rate"
    return f"weights and optimizer are back at {report.get('to')}; {cut}"


CONDITION = Condition(
    code="KF205",
    name="went-back",
    title="weights and optimizer went back to a saved state",
    severity="warning",
    watch=watch,
    remedies=(Remedy("take the lower learning rate as advice", "it was halved at every return", automatic=True),),
)
