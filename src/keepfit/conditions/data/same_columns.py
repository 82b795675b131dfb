"""Two columns that are the same in every row.

## What happened
One of them tells nothing that the other does not. If one is the label, the answer is among the features.

## How keepfit knows
Columns of equal range were compared row by row.

## What to do
Leave one out.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    if not of_file(report, "alike"):
        return None
    pairs = ", ".join(f"{one} and {other}" for one, other in report["pairs"])
    return f"the same in every row: {pairs}"


CONDITION = Condition(
    code="KF323",
    name="columns-the-same",
    title="two columns are the same",
    severity="warning",
    preflight=preflight,
    remedies=(Remedy("leave one out", "and see that none of them is the label"),),
)
