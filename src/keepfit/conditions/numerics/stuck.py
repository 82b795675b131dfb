"""The loss does not move: it is what it was at the start, and the gradients are next to nothing.

## What happened
The training has a degenerate start: a ReLU as output layer that gives 0 for everything, labels that fit no output, a
loss of something that does not depend on the weights.

## How keepfit knows
After 200 steps: the norm of all gradients was below 1e-6 in the first steps, is so now, and was in all between that
are remembered, while the loss is not 0.

## What to do
Look at the output layer's activation and at what the loss compares.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

STEPS = 200
NOTHING = 1e-6  # norm of all gradients


def watch(report: Report) -> str | None:
    if report.get("kind") != "health" or int(report.get("steps") or 0) < STEPS or "loss" not in report:
        return None
    loss, most = float(report["loss"]), max(float(report["norm_first"]), float(report["norm_most"]))
    if abs(loss) < NOTHING or most > NOTHING:
        return None
    return f"nothing is learnt: the gradients have been next to nothing ({most:.1g}) since the first step"


CONDITION = Condition(
    code="KF216",
    name="loss-stuck",
    title="the loss does not move, and there is no gradient",
    severity="warning",
    watch=watch,
    remedies=(Remedy("look at the output layer", "its activation, and what the loss compares"),),
)
