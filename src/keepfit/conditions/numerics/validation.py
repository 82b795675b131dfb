"""The validation met a number that is not finite.

## What happened
A batch of the validation gave a loss that is NaN or Inf. Nothing was changed: `val_loss` is what Keras makes of it.
EarlyStopping and ReduceLROnPlateau see a NaN.

## How keepfit knows
The loss of every validation batch is looked at; the batch is run once more to find the sample.

## What to do
Look at the sample.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from . import poison


def watch(report: Report) -> str | None:
    if report.get("kind") != "numbers-poison" or report.get("step") != "test":
        return None
    epoch = report.get("epoch")
    what = f"the validation of epoch {int(epoch) + 1}" if isinstance(epoch, int) else "an evaluation"
    return f"{what} is not finite: {poison.culprit(report)}"


CONDITION = Condition(
    code="KF207",
    name="validation-not-finite",
    title="the validation met NaN or Inf",
    severity="error",
    watch=watch,
    remedies=(Remedy("look at that sample", "keepfit check PATH"),),
)
