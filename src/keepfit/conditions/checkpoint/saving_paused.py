"""States are not saved any more: the disk has no room for another, or cannot be written.

## What happened
Before a state is written the free space is looked at. When it ran low the older generation was removed; it was
not enough. The training goes on, the last good state stays, and it is tried again every half minute.

## How keepfit knows
The file system says how much is free; or a write failed, and the system said why.

## What to do
Make room where the runs are kept, or keep them elsewhere (`--runs-dir`, `KEEPFIT_RUNS`).
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "checkpoint-paused":
        return None
    return f"states are not being saved ({report['why']}); the training goes on, the last good one stays"


CONDITION = Condition(
    code="KF703",
    name="saving-paused",
    title="states cannot be saved; the training goes on",
    severity="warning",
    watch=watch,
    remedies=(Remedy("make room", "where the runs are kept, or choose another place with --runs-dir"),),
)
