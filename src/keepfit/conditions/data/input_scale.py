"""Inputs on a scale that nets do not like: 0 to 255.

## What happened
Pixels come as they are in the file, and nothing in the model's first layers brings them to about 1. Training often
works, slowly, with a smaller learning rate.

## How keepfit knows
The range of the first batch, and the kinds of the first layers. A note, no error: some nets want it so.

## What to do
`keras.layers.Rescaling(1 / 255)` as the first layer, or divide in the pipeline.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

_SCALES = ("Rescaling", "Normalization", "BatchNormalization", "LayerNormalization", "GroupNormalization", "Embedding")
IMAGE_RANK = 4
LEAST = 50.0  # a brightest pixel below that is no 0 to 255


def watch(report: Report) -> str | None:
    if report.get("what") != "scale" or report.get("kind") != "input":
        return None
    if any(str(layer) in _SCALES for layer in report.get("first") or []):
        return None
    for name, found in dict(report.get("ranges") or {}).items():
        if found["rank"] == IMAGE_RANK and found["low"] >= 0 and LEAST < found["high"] <= 255:
            return f"{name} comes as 0 to {found['high']:.0f}, and nothing scales it: Rescaling(1 / 255) as first layer"
    return None


CONDITION = Condition(
    code="KF307",
    name="input-not-scaled",
    title="inputs from 0 to 255 that nothing scales",
    severity="note",
    watch=watch,
    remedies=(Remedy("scale it", "keras.layers.Rescaling(1 / 255) as the first layer"),),
)
