"""Units that are never active: a ReLU layer that has died.

## What happened
Nearly all units of a layer with ReLU gave 0 for every sample that was looked at. They get no gradient any more, and
do not come back by themselves. Mostly one step that was far too large did it.

## How keepfit knows
The activations of 32 samples at each look (after 50 steps, and at every doubling); a unit counts as dead only if it
was never active in any of at least three looks.

## What to do
A lower learning rate or a warm-up, He initialisation, LeakyReLU or GELU.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

SHARE = 0.95  # of the units
LOOKS = 3


def watch(report: Report) -> str | None:
    if report.get("kind") != "health" or int(report.get("probes") or 0) < LOOKS:
        return None
    units = dict(report.get("units") or {})
    dead = {n: u for n, u in units.items() if u.get("kind") == "relu" and float(u.get("never") or 0) >= SHARE}
    if not dead:
        return None
    name, worst = max(dead.items(), key=lambda item: float(item[1]["never"]))
    more = f" (and {len(dead) - 1} more layers)" if len(dead) > 1 else ""
    return f"{float(worst['never']):.0%} of the units of layer {name} are never active{more}"


CONDITION = Condition(
    code="KF213",
    name="units-dead",
    title="nearly all units of a layer are never active",
    severity="warning",
    watch=watch,
    remedies=(Remedy("a lower learning rate, or a leaky activation", "what is dead stays dead: begin anew"),),
)
