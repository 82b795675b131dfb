"""An update of a hand-written loop was not finite, and was not applied.

## What happened
In a `GradientTape` loop of your own, the gradients given to an optimizer held NaN or Inf. Weights and optimizer stay
as they were. Statistics (BatchNormalization) and metrics are the loop's own: those may have taken the NaN in.

## How keepfit knows
Gradients are looked at in `apply_gradients`.

## What to do
With `fit` the batch itself is handed over and the culprit is named; here look at your data with `keepfit check`.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "numbers-loop":
        return None
    count = int(report.get("count") or 1)
    times = f"{count} updates" if count > 1 else "an update"
    return f"{times} of your own loop not applied: the gradients were not finite (weights and optimizer only)"


CONDITION = Condition(
    code="KF206",
    name="loop-update-not-finite",
    title="an update of a hand-written loop was not finite",
    severity="error",
    watch=watch,
    remedies=(Remedy("look at the data", "keepfit check PATH"),),
)
