"""Gradients grow: a hundred times as large as at the start, and the loss is no longer at its best.

## What happened
The norm of all gradients together has grown a hundredfold since the first steps while the loss went up: the training
is on its way out.

## How keepfit knows
The norm of every step is taken from numbers the step has anyway. Medians over 50 steps are compared, so one outlier
does not count, and gradients that grow while the loss falls do not either.

## What to do
Clip at the norm named (the 95th percentile of the last 500 steps; `--clip auto` does it), or lower the learning rate.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

TIMES = 100.0  # as large as at the start
WORSE = 2.0  # times the best loss so far


def watch(report: Report) -> str | None:
    if report.get("kind") != "health" or "norm" not in report:
        return None
    grew = float(report["norm"]) / max(float(report["norm_first"]), 1e-12)
    best = max(float(report["loss_best"]), 1e-12)
    if grew < TIMES or float(report["loss"]) < WORSE * best:
        return None
    return (
        f"the gradients are {grew:.0f} times as large as at the start, and the loss {float(report['loss']) / best:.1f} "
        f"times its best: clip at {float(report['norm_95']):.2g}, the 95th percentile of the last "
        f"{report['counted']} steps (--clip auto)"
    )


CONDITION = Condition(
    code="KF211",
    name="gradients-explode",
    title="gradients grow, and the loss with them",
    severity="warning",
    watch=watch,
    remedies=(Remedy("clip the gradients", "keepfit run --clip auto -- …"),),
)
