"""The loss scale is down at 1 and every step is passed over.

## What happened
Under mixed precision an overflow halves the loss scale and skips the step. Here it went down to 1 or less, and the
optimizer has not applied a step for a long while: it is no overflow of the scale but of the model itself.

## How keepfit knows
The scale, and the optimizer's count of applied steps, at each look.

## What to do
bfloat16 instead of float16, or float32 for the layers that overflow (softmax, normalisation, losses).
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

LEAST = 1.0
SHARE = 0.1  # of the steps applied: below that it does not train


def watch(report: Report) -> str | None:
    if report.get("kind") != "health" or "scale" not in report:
        return None
    steps, applied = int(report["steps"]), int(report["applied"])
    if float(report["scale"]) > LEAST or applied > SHARE * steps:
        return None
    return f"the loss scale is at {float(report['scale']):.3g}, and {steps - applied} of {steps} steps were not applied"


CONDITION = Condition(
    code="KF217",
    name="loss-scale-stuck",
    title="every step overflows, whatever the loss scale",
    severity="warning",
    watch=watch,
    remedies=(Remedy("bfloat16", 'keras.config.set_dtype_policy("mixed_bfloat16")'),),
)
