"""A column of a type that is not looked at.

## What happened
Dates, structures, lists and other types are passed over: nothing is known of their values.

## How keepfit knows
It reads numbers, words and truth values.

## What to do
Nothing; or bring it to numbers, as the training will have to.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    if not of_file(report, "skipped"):
        return None
    what = f"column {report['name']!r}" if report.get("name") else "its array"
    return f"{what} is not looked at ({report['dtype']})"


CONDITION = Condition(
    code="KF331",
    name="not-looked-at",
    title="a column of a type that is not looked at",
    severity="note",
    preflight=preflight,
    remedies=(Remedy("bring it to numbers", "as the training will have to"),),
)
