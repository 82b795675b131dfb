"""Dropout draws other numbers when the batch is split.

## What happened
The batch runs in parts (KF120), and layers that draw random numbers (dropout, augmentation, noise)
draw once a part instead of once a batch. The distribution is the same, the numbers are not: a run
with the same seed but another micro-batch goes another, equally good way.

## How keepfit knows
The model has layers with a seed generator and a rate above zero, and its batch is split.

## What to do
Nothing. The micro-batch is remembered, so the same command on the same machine draws the same again.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "random-draws":
        return None
    layers = report["layers"]
    many = f"{layers[0]} and {len(layers) - 1} more" if len(layers) > 1 else str(layers[0])
    return f"same distribution, other draws: {many} draw once a micro-batch"


CONDITION = Condition(
    code="KF124",
    name="other-random-draws",
    title="layers that draw random numbers draw once a micro-batch",
    severity="note",
    watch=watch,
    remedies=(Remedy("nothing to do", "the distribution is the same", automatic=True),),
)
