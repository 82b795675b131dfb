"""The graph is larger than 2 GiB.

## What happened
A large array became a constant of the graph (`from_tensor_slices` of gigabytes, a lookup table in a lambda), and a
graph cannot be larger than 2 GiB.

## How keepfit knows
The exception that ended it says so.

## What to do
A generator or files instead of one array; a variable or a layer's weight instead of a constant.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Remedy
from ..catalogue import Condition, Diagnosis
from .text import by_error

_SAID = re.compile(
    r"GraphDef as the serialized size|Cannot create a tensor proto whose content is larger than 2GB|"
    r"exceed(?:s|ed) (?:the )?(?:protobuf|2GB)|larger than the limit \(2147483647 bytes\)"
)


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return by_error(attempt, _SAID, "the graph is larger than 2 GiB")


CONDITION = Condition(
    code="KF311",
    name="graph-too-large",
    title="the graph is larger than 2 GiB",
    cause="graph_too_large",
    severity="error",
    autopsy=autopsy,
    remedies=(Remedy("keep large arrays out of the graph", "from_generator, files, or a variable"),),
)
