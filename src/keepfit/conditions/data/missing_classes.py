"""Classes without a single sample.

## What happened
The model has an output for a class that no label of the training data names. It learns that the class does not exist.

## How keepfit knows
The labels were counted: all of them where `fit` was given arrays, those of the first epoch otherwise.

## What to do
Nothing, if the class is meant to come later. Else look at how the data was split or filtered.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("what") != "classes" or report.get("kind") != "input":
        return None
    units, absent = int(report["units"]), int(report["absent"])
    if units < 3 or not absent or absent == units:
        return None
    names = ", ".join(str(number) for number in list(report.get("missing") or [])[:5])
    where = "training data" if report.get("where") == "data" else "first epoch"
    return f"{absent} of {units} classes have no sample in the {where} ({names}{', …' if absent > 5 else ''})"


CONDITION = Condition(
    code="KF308",
    name="classes-missing",
    title="classes without a single sample",
    severity="note",
    watch=watch,
    remedies=(Remedy("look at the split", "keepfit check counts the labels"),),
)
