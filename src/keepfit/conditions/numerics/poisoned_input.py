"""A sample that is not finite: NaN or Inf in its features, its label or its weight.

## What happened
A batch held a value that is no number, so the loss or the gradients were none either. The update was not applied:
weights, optimizer, statistics and metrics are as if the batch had not been there.

## How keepfit knows
Loss and gradients are looked at inside the step. When one is not finite, the batch is run once more from the
untouched weights, operation by operation; here the first operation already took the value in.

## What to do
Look at the sample: its index in the data is named where an array holds it. `keepfit check` finds all of them before
the next run, `keepfit.clean` replaces them in a tf.data pipeline.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import OWN_ACT, Condition, Diagnosis, Report
from . import poison


def watch(report: Report) -> str | None:
    return poison.message(report) if poison.kind_of(report) == poison.INPUT else None


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return poison.ended_it(attempt, poison.INPUT)


CONDITION = Condition(
    code="KF201",
    name="sample-not-finite",
    title="a sample holds NaN or Inf",
    cause="nonfinite_input",
    specificity=OWN_ACT,
    severity="error",
    watch=watch,
    autopsy=autopsy,
    remedies=(Remedy("look at that sample, or clean the data", "keepfit check FILE --fix median --out CLEANED"),),
)
