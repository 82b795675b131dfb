"""A file holds NaN or Inf.

## What happened
Features or labels in the file are no numbers. A training step that meets one makes a loss that is none either.

## How keepfit knows
Every value was looked at.

## What to do
`keepfit check FILE --fix median --out CLEANED` replaces them by a statistic of the *finite* values of their column;
`--fix drop` leaves the rows out. The mean of a column that holds Inf is Inf: replacing by that cleans nothing.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    if not of_file(report, "nonfinite"):
        return None
    counts = [f"{report[key]} {word}" for key, word in (("nan", "NaN"), ("inf", "Inf")) if report.get(key)]
    name = f", {report['name']}" if report["name"] else ""
    return f"{' and '.join(counts)}; the first in row {report['row']}{name}: {report['value']}"


CONDITION = Condition(
    code="KF320",
    name="file-not-finite",
    title="a file holds NaN or Inf",
    severity="error",
    preflight=preflight,
    remedies=(Remedy("a cleaned copy", "keepfit check FILE --fix median --out CLEANED"),),
)
