"""The model is built for one batch size: its batch cannot be split.

## What happened
The batch does not fit, but an input has a fixed batch size, or a recurrent layer is stateful: its
state has one row for each row of the batch, so a part does not go with it.

## How keepfit knows
The model's own description says so.

## What to do
Leave the batch dimension open (`keras.Input(shape=…)` without `batch_size`), or make the recurrent
layers stateless and carry the state yourself. Without that the danger line stands guard alone.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "fixed-batch":
        return None
    return f"the batch of {report['rows']} is not split: {report['why']}"


CONDITION = Condition(
    code="KF125",
    name="batch-size-fixed",
    title="the model is built for one batch size, so its batch is not split",
    severity="warning",
    watch=watch,
    remedies=(Remedy("leave the batch dimension open", "keras.Input(shape=…)"),),
)
