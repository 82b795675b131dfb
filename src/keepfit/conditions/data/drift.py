"""Batches that are no longer like the first ones.

## What happened
The spread of an input is ten times what it was in the first batches, or a tenth of it, twice in a row: an
augmentation that goes wrong, a file on another scale, a generator that changes.

## How keepfit knows
A batch is looked at every few seconds and compared with the first three.

## What to do
`keepfit.compare(raw, augmented)` shows what an augmentation does to range, type and share of NaN.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

TIMES = 10.0


def watch(report: Report) -> str | None:
    if report.get("what") != "drift" or report.get("kind") != "input":
        return None
    now, normal = report["now"], report["normal"]
    if now["rank"] != normal["rank"]:
        return f"{report['name']} has {now['rank']} axes now, and had {normal['rank']} in the first batches"
    ratio = max(float(now["spread"]), 1e-12) / max(float(normal["spread"]), 1e-12)
    if 1 / TIMES < ratio < TIMES:
        return None
    return (
        f"{report['name']} is no longer like the first batches: {now['low']:.3g} to {now['high']:.3g}, where it was "
        f"{normal['low']:.3g} to {normal['high']:.3g}"
    )


CONDITION = Condition(
    code="KF309",
    name="batches-drift",
    title="batches are no longer like the first ones",
    severity="warning",
    watch=watch,
    remedies=(Remedy("look at the augmentation", "keepfit.compare(raw, augmented)"),),
)
