"""This training is not saved.

## What happened
Some trainings cannot be saved yet: two `fit` at once in one process (only the first is), one spread over several
devices, a model with variables of a type that no file holds (strings).

## How keepfit knows
It looked when the training began.

## What to do
Nothing, or save from the script: keepfit does not stand in the way of `ModelCheckpoint`.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") == "checkpoint-left-out":
        names = ", ".join(str(name) for name in report["names"])
        return f"this training is not saved: no file holds the type of {names}"
    if report.get("kind") != "checkpoint-not-kept":
        return None
    return f"this training is not saved: {report['why']}"


CONDITION = Condition(
    code="KF705",
    name="training-not-saved",
    title="this training cannot be saved",
    severity="note",
    watch=watch,
    remedies=(Remedy("save from the script", "keras.callbacks.ModelCheckpoint works as always"),),
)
