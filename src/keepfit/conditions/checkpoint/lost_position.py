"""The position in the data was saved, but TensorFlow would not go back to it.

## What happened
The state of the iterator was read and its checksum was right, yet the pipeline refused it: another version of
TensorFlow, or a pipeline that is built differently now. Weights, optimizer and everything else were restored. The
epoch goes on past as many batches as were trained, in the order it has now, so a sample may come twice or not at
all in this one epoch.

## How keepfit knows
TensorFlow raised an error.

## What to do
If it matters, begin anew with the version that is installed now.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "checkpoint-lost":
        return None
    return (
        f"the position in the data could not be restored ({report['why']}); the epoch goes on past as many batches, "
        "in the order it has now"
    )


CONDITION = Condition(
    code="KF706",
    name="lost-position",
    title="the position in the data could not be restored",
    severity="warning",
    watch=watch,
    remedies=(Remedy("nothing, or begin anew", "one epoch may see a sample twice or not at all"),),
)
