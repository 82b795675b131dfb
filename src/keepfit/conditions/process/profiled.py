"""A profiler or a debugger is at work: the training is recorded, and nothing is done in it.

## What happened
When the framework was imported a profiler or a debugger was already on. What it shows is to be the program and
nothing else, so keepfit put no hook into the training: its batch is not split, its state is not saved, its numbers
are not looked at. Memory, output and the end are recorded as always.

## How keepfit knows
*certain*: the interpreter says so (`sys.getprofile`, `sys.gettrace`, `sys.monitoring`).

## What to do
Nothing, for a profile. For a long training run it without the profiler, or begin the profile after the framework was
imported: then it shows what keepfit does as well.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "aside":
        return None
    return (
        f"{report.get('by')} is on: the training is recorded, and keepfit does nothing in it (no splitting, no saving)"
    )


CONDITION = Condition(
    code="KF514",
    name="profiled",
    title="a profiler or a debugger is on",
    severity="note",
    watch=watch,
    remedies=(Remedy("run it without the profiler", "keepfit run -- python train.py"),),
)
