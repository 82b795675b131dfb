"""Rows of one file that are not alike.

## What happened
A column changes its type, records have other features or lengths than the first, lines have another number of fields,
arrays of one archive have different numbers of rows.

## How keepfit knows
It read all of it.

## What to do
The row is named. Look at how the file was written; two of them put together is the usual reason.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file

_KINDS = ("type", "shape", "features", "ragged", "lengths", "encoding", "header")


def preflight(report: Report) -> str | None:
    return str(report["why"]) if of_file(report, *_KINDS) else None


CONDITION = Condition(
    code="KF321",
    name="rows-not-alike",
    title="rows of one file are not alike",
    severity="error",
    preflight=preflight,
    remedies=(Remedy("look at that row", "and at how the file was put together"),),
)
