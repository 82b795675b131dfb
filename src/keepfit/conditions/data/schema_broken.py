"""Data that is not as it was learnt.

## What happened
Types, shapes, ranges or categories differ from those in the schema.

## How keepfit knows
It was compared with what `--learn` wrote.

## What to do
Mend the data; or, if the new is right, learn the schema again.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    return str(report["why"]) if of_file(report, "schema") else None


CONDITION = Condition(
    code="KF328",
    name="schema-broken",
    title="data is not as it was learnt",
    severity="error",
    preflight=preflight,
    remedies=(Remedy("mend the data, or learn anew", "keepfit check FILE --learn SCHEMA"),),
)
