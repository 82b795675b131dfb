"""Shapes that do not fit each other.

## What happened
Inputs and layer, targets and outputs, or two samples of one batch have shapes that do not go together.

## How keepfit knows
The exception that ended it says so.

## What to do
The two shapes are in the message: the first is what came, the second what was expected (or the other way round).
"""

from __future__ import annotations

import re

from ...facts import Attempt, Remedy
from ..catalogue import Condition, Diagnosis
from .text import by_error

_SAID = re.compile(
    r"Incompatible shapes|incompatible with the layer|Shapes? .{1,80} (?:and|are|must).{1,80}(?:incompatible|same)|"
    r"Cannot batch tensors with different shapes|must have the same shape|expected shape|Dimensions must be equal|"
    r"yielded an element of shape|setting an array element with a sequence|could not be broadcast together|"
    r"Matrix size-incompatible|mat1 and mat2 shapes cannot be multiplied|Data cardinality is ambiguous"
)


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return by_error(attempt, _SAID, "shapes do not fit")


CONDITION = Condition(
    code="KF302",
    name="shapes-do-not-fit",
    title="shapes that do not fit each other",
    cause="shape_mismatch",
    severity="error",
    autopsy=autopsy,
    remedies=(Remedy("compare the two shapes in the message", "keepfit check PATH shows those of the data"),),
)
