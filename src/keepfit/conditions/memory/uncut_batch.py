"""The batch cannot be cut by rows.

## What happened
The batch does not fit, but it holds something that has no rows to cut: a sparse tensor, a value
without a batch dimension, inputs of different lengths; or the model belongs to a distribution
strategy, which cuts batches itself.

## How keepfit knows
It looked at the first batch.

## What to do
Give every input the batch as its first dimension. Without that the danger line stands guard alone.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") not in ("data", "strategy", "single"):
        return None
    return f"the batch of {report['rows']} is not split: {report['why']}"


CONDITION = Condition(
    code="KF127",
    name="batch-not-cut",
    title="the batch cannot be cut by rows, so it is not split",
    severity="warning",
    watch=watch,
    remedies=(Remedy("give every input the batch as its first dimension", "x[0].shape[0] == x[1].shape[0]"),),
)
