"""Rows, or files, that come more than once.

## What happened
The same sample counts several times, and a random split puts it into training and validation both.

## How keepfit knows
Rows are compared by a 64-bit hash, files by BLAKE2.

## What to do
Drop the copies before the split.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    if not of_file(report, "twice"):
        return None
    if "count" not in report:
        return str(report["why"])
    shown = ", ".join(f"{row} as {first}" for row, first in report["shown"])
    return f"{report['count']} of {report['rows']} rows come more than once (row {shown})"


CONDITION = Condition(
    code="KF324",
    name="rows-twice",
    title="rows come more than once",
    severity="warning",
    preflight=preflight,
    remedies=(Remedy("drop the copies before the split", "np.unique, DataFrame.drop_duplicates"),),
)
