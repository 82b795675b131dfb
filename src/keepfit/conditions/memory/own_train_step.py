"""The model has a train_step of its own: its batch is not split.

## What happened
The batch does not fit, and the class overrides `train_step` (or `test_step`, `predict_step`). What it
does with a batch is its own business: run twice or on parts it might do something else.

## How keepfit knows
The method that would be called is not Keras' own.

## What to do
Inside your own step, let `keepfit.accumulate` compute the gradients in parts: one changed line, equal
to the whole batch. Without it the danger line stands guard alone.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

CALL = "loss, gradients = keepfit.accumulate(loss_of, self.trainable_variables, x, y)"


def watch(report: Report) -> str | None:
    if report.get("kind") != "own-step":
        return None
    return f"the batch of {report['rows']} is not split: {report['why']}; in it, keepfit.accumulate splits exactly"


CONDITION = Condition(
    code="KF123",
    name="own-train-step",
    title="the model has a train_step of its own, so its batch is not split",
    severity="warning",
    watch=watch,
    remedies=(Remedy("accumulate in your own step", CALL),),
)
