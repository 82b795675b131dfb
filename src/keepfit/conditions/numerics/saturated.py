"""Activations stand at their limits: a hidden layer that passes nearly no gradient.

## What happened
Nearly all outputs of a hidden layer with tanh or sigmoid are at its flat ends. The slope there is next to 0.

## How keepfit knows
The activations of 32 samples at each look; three looks in a row. Output layers do not count (there it is the aim),
nor do the gates of recurrent layers.

## What to do
Scale the inputs, normalise before the activation, use a smaller initialisation or a lower learning rate.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

SHARE = 0.95  # of the outputs
LOOKS = 3


def watch(report: Report) -> str | None:
    if report.get("kind") != "health" or int(report.get("probes") or 0) < LOOKS:
        return None
    units = dict(report.get("units") or {})
    flat = {name: float(unit["saturated"]) for name, unit in units.items() if float(unit["saturated"]) >= SHARE}
    if not flat:
        return None
    name = max(flat, key=lambda key: flat[key])
    return f"{flat[name]:.0%} of the outputs of layer {name} ({units[name]['kind']}) stand at their limits"


CONDITION = Condition(
    code="KF214",
    name="activations-saturated",
    title="a hidden layer stands at the limits of its activation",
    severity="warning",
    watch=watch,
    remedies=(Remedy("scale what comes in", "normalise inputs, or before the activation"),),
)
