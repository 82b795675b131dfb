"""A column that never changes.

## What happened
All rows have the same value there: nothing can be learnt from it.

## How keepfit knows
Its least value is its largest.

## What to do
Leave it out, or look at whether it was filled by mistake.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    if not of_file(report, "constant"):
        return None
    names, count = list(report["names"]), int(report["count"])
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return f"never {'changes' if count == 1 else 'change'}: {', '.join(map(str, names))}{more}"


CONDITION = Condition(
    code="KF322",
    name="column-constant",
    title="a column never changes",
    severity="note",
    preflight=preflight,
    remedies=(Remedy("leave it out", "nothing can be learnt from it"),),
)
