"""A file that cannot be read, or holds nothing.

## What happened
It is empty, of a kind that is not known, not readable, changed while it was read, or would have to be unpickled
(which runs code, and is refused).

## How keepfit knows
It tried.

## What to do
As the message says.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    return str(report["why"]) if of_file(report, "unreadable", "empty", "grew") else None


CONDITION = Condition(
    code="KF329",
    name="file-unreadable",
    title="a file cannot be read",
    severity="error",
    preflight=preflight,
    remedies=(Remedy("as the message says", "keepfit check PATH"),),
)
