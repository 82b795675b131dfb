"""The weights move too far in a step.

## What happened
A step changes the weights by more than a tenth of their size, again and again, and the loss is not better than at the
start: the learning rate is far too high. (About a thousandth is usual.)

## How keepfit knows
A part of every kernel before and after a step, three looks in a row, and the medians of the loss.

## What to do
Divide the learning rate by ten, or warm it up.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

FAR = 0.1  # of the weights' size
LOOKS = 3


def watch(report: Report) -> str | None:
    moves = sorted(float(value) for value in dict(report.get("updates") or {}).values())
    if report.get("kind") != "health" or int(report.get("probes") or 0) < LOOKS or not moves or "loss" not in report:
        return None
    middle = moves[len(moves) // 2]
    if middle < FAR or float(report["loss"]) < float(report["loss_first"]):
        return None
    return f"a step moves the weights by {middle:.0%} of their size, and the loss is no better than at the start"


CONDITION = Condition(
    code="KF215",
    name="steps-too-large",
    title="the weights move too far in a step",
    severity="warning",
    watch=watch,
    remedies=(Remedy("divide the learning rate by ten", "or warm it up"),),
)
