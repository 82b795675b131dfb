"""Missing values in a table.

## What happened
Cells are empty (null). Most readers make NaN of them.

## How keepfit knows
They were counted.

## What to do
`--fix median` fills them together with NaN and Inf; or drop the rows, or the column.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    if not of_file(report, "missing"):
        return None
    return f"column {report['name']!r}: {report['count']} of {report['rows']} values are missing"


CONDITION = Condition(
    code="KF330",
    name="values-missing",
    title="missing values in a table",
    severity="warning",
    preflight=preflight,
    remedies=(Remedy("fill or drop them", "keepfit check FILE --fix median --out CLEANED"),),
)
