"""Use climbs toward the limit in the middle of the training: the micro-batch is made smaller.

## What happened
The run stood above 96 % of its limit although the first steps had fitted: a longer sequence, a second
epoch, validation, fragmentation or a leak. From the next step on the micro-batch is half of what it
was. That avoids future peaks and frees nothing; if use goes on climbing, something leaks: a state is
saved, and a new process goes on from it before the danger line is reached.

## How keepfit knows
It samples the run's memory twenty times a second.

## What to do
Nothing now. If it comes back in every run, something grows: see the samples in the record.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from ..reading import size


def watch(report: Report) -> str | None:
    if report.get("kind") != "climbing":
        return None
    return (
        f"use stands at {size(int(report['use']))} of {size(int(report['limit']))}: "
        f"micro-batches of {report['rows']} from the next step on"
    )


CONDITION = Condition(
    code="KF128",
    name="use-climbs",
    title="use climbed toward the limit, so the micro-batch was made smaller",
    severity="warning",
    watch=watch,
    remedies=(Remedy("nothing to do now", "the micro-batch was made smaller", automatic=True),),
)
