"""A label outside the range of the model's outputs.

## What happened
With a sparse loss a label is an index: with 10 outputs, 0 to 9. A larger one (labels that begin with 1, a class
that was added) or a negative one makes the CPU raise an error in the middle of an epoch, and a GPU return NaN
without a word.

## How keepfit knows
*certain*: labels and output layer are looked at before the first step, or TensorFlow's own error names the label.

## What to do
Subtract 1 if the labels begin with 1; give the last layer as many units as there are classes.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Remedy
from ..catalogue import Condition, Diagnosis, Report
from .text import by_error

_SAID = re.compile(r"label value of -?\d+ which is outside the valid range of \[\d+, \d+\)")


def watch(report: Report) -> str | None:
    if report.get("what") != "targets" or report.get("kind") != "input":
        return None
    loss, units = str(report["loss"]), int(report["units"])
    low, high = float(report["low"]), float(report["high"])
    row = f"sample {report['row']}" if report.get("whole") else f"row {report['row']} of the first batch"
    if loss.startswith("sparse_categorical") and (high >= units or low < 0):
        label = high if high >= units else low
        return f"{row} has label {label:.0f}; the model has {units} outputs, for labels 0 to {units - 1}"
    if loss.startswith("binary") and (low < 0 or high > 1):
        return f"{row} has label {high if high > 1 else low:g}; {loss} takes labels from 0 to 1"
    return None


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return by_error(attempt, _SAID, "a label is outside the range of the model's outputs")


CONDITION = Condition(
    code="KF301",
    name="label-out-of-range",
    title="a label is outside the range of the outputs",
    cause="bad_label",
    severity="error",
    watch=watch,
    autopsy=autopsy,
    remedies=(Remedy("labels from 0, or more outputs", "labels - labels.min(), or as many units as classes"),),
)
