"""Classes without a single sample.

## What happened
The model has an output for a class that no label of the training data names. It learns that the class does not exist.

## How keepfit knows
All labels of the arrays given to `fit` were counted.

## What to do
Nothing, if the class is meant to come later. Else look at how the data was split or filtered.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("what") != "targets" or report.get("kind") != "input" or not report.get("whole"):
        return None
    units, absent = int(report["units"]), int(report.get("absent") or 0)
    sparse = str(report["loss"]).startswith("sparse_categorical")
    if not sparse or units < 3 or not absent or float(report["high"]) >= units:
        return None
    names = ", ".join(str(number) for number in list(report.get("missing") or [])[:5])
    return f"{absent} of {units} classes have no sample in the training data ({names}{', …' if absent > 5 else ''})"


CONDITION = Condition(
    code="KF308",
    name="classes-missing",
    title="classes without a single sample",
    severity="note",
    watch=watch,
    remedies=(Remedy("look at the split", "keepfit check counts the labels"),),
)
