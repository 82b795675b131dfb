"""Types that do not fit each other.

## What happened
A value of one type was given where another was expected: strings or objects where numbers are wanted, float64 where
the model has float32, a generator that changes its mind.

## How keepfit knows
The exception that ended it says so.

## What to do
Convert once, where the data is read: `astype("float32")`, `tf.cast`.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Remedy
from ..catalogue import Condition, Diagnosis
from .text import by_error

_SAID = re.compile(
    r"Invalid dtype|data type = dtype\('O'\)|Failed to convert a NumPy array to a Tensor|Unsupported object type|"
    r"cannot compute .{1,40} as input #\d+.{0,40} was expected to be a \w+ tensor|"
    r"Tensor conversion requested dtype|is not one of the types|has type \w+ that does not match|"
    r"yielded an element (?:of type|that did not match)|could not convert string to float|expected scalar type"
)


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return by_error(attempt, _SAID, "types do not fit")


CONDITION = Condition(
    code="KF303",
    name="types-do-not-fit",
    title="types that do not fit each other",
    cause="dtype_mismatch",
    severity="error",
    autopsy=autopsy,
    remedies=(Remedy("convert where the data is read", 'astype("float32"), tf.cast'),),
)
