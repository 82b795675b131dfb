"""A saved state was not what had been written, and was passed over.

## What happened
A generation's manifest or one of its files had another length or checksum than when it was written: a power cut,
a failing disk, somebody's hand. It is never loaded; the one before it is taken.

## How keepfit knows
Every file of a generation is read and compared with the SHA-256 in its manifest, which has one of its own.

## What to do
`keepfit checkpoints RUN` lists and verifies all of them. One damaged file after a power cut is bad luck; more
than that is a disk worth looking at.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "checkpoint-damaged":
        return None
    return f"saved state {report['generation']} is damaged ({report['why']}); {report['then']}"


CONDITION = Condition(
    code="KF702",
    name="damaged-state",
    title="a saved state is damaged and was passed over",
    severity="warning",
    watch=watch,
    remedies=(Remedy("look at the disk", "keepfit checkpoints RUN verifies what is left"),),
)
