"""The data ended before the epoch did.

## What happened
`steps_per_epoch` asks for more batches than the dataset or generator gives. Keras warns once and ends the training
early; the epochs that were asked for are not trained.

## How keepfit knows
Keras' own warning, with the numbers beside it.

## What to do
`.repeat()` on the dataset, a generator that does not end, or fewer `steps_per_epoch`.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Remedy
from ..catalogue import Condition, Diagnosis, Report
from .text import by_error

_SAID = re.compile(r"ran out of data|generator raised StopIteration|End of sequence")


def watch(report: Report) -> str | None:
    if report.get("what") != "dry" or report.get("kind") != "input":
        return None
    return (
        f"the data ended after {report['seen']} of {report['wanted']} batches in epoch {int(report['epoch']) + 1}: "
        "the training ends early (`.repeat()` the dataset, or ask for fewer steps_per_epoch)"
    )


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return by_error(attempt, _SAID, "the data ended too early", ("OutOfRangeError",))


CONDITION = Condition(
    code="KF304",
    name="data-ended-early",
    title="the data ended before the epoch did",
    cause="data_exhausted",
    severity="warning",
    watch=watch,
    autopsy=autopsy,
    remedies=(Remedy("repeat the dataset", "dataset.repeat(), or fewer steps_per_epoch"),),
)
