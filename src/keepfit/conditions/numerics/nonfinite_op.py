"""An operation made a NaN or an Inf out of finite numbers.

## What happened
log(0), 0/0, the root's slope at 0, exp of a large number, a float16 that overflowed: one operation of one layer (or
of the loss, or on the way back) gave a value that is no number. The update was not applied.

## How keepfit knows
The batch is run once more from the untouched weights, operation by operation. The first one with finite inputs and
an output that is not is the culprit, and its rows are the samples.

## What to do
Guard that operation: an epsilon inside the log or the root, a clip before the exp, `divide_no_nan`, a loss that
takes logits (`from_logits=True`) instead of probabilities. `keepfit replay RUN` opens the batch for a look.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Remedy
from ..catalogue import OWN_ACT, Condition, Diagnosis, Report
from ..reading import at, by_exit, error_evidence, error_strength, failed
from . import poison

_CHECKED = re.compile(r"Tensor had (?:NaN|Inf|-Inf|\+Inf)|detected Infinity or NaN|nan in [a-z]+ before", re.I)


def watch(report: Report) -> str | None:
    return poison.message(report) if poison.kind_of(report) == poison.OPERATION else None


def autopsy(attempt: Attempt) -> Diagnosis | None:
    error = attempt.error
    if failed(attempt) and error is not None and _CHECKED.search(error.message):
        where = at(error.frame)
        said = error.message.splitlines()[0][:160]
        return Diagnosis(
            error_strength(error), f"a check met a number that is not finite: {said}",
            (error_evidence(error), by_exit(attempt)), where,
        )  # fmt: skip
    return poison.ended_it(attempt, poison.OPERATION)


CONDITION = Condition(
    code="KF202",
    name="operation-not-finite",
    title="an operation made NaN or Inf out of finite numbers",
    cause="nonfinite_op",
    specificity=OWN_ACT,
    severity="error",
    watch=watch,
    autopsy=autopsy,
    remedies=(Remedy("guard that operation", "an epsilon, a clip, divide_no_nan, or a loss that takes logits"),),
)
