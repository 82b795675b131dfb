"""Pictures that are not what their name says, or not what a net takes.

## What happened
A PNG called .jpg makes `decode_jpeg` fail; CMYK and palettes come out with other channels than RGB.

## How keepfit knows
Every picture was decoded.

## What to do
Rename or convert them once: `Image.open(path).convert("RGB").save(path)`.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    return str(report["why"]) if of_file(report, "suffix", "modes") else None


CONDITION = Condition(
    code="KF327",
    name="pictures-odd",
    title="pictures that are not what they seem",
    severity="warning",
    preflight=preflight,
    remedies=(Remedy("convert them once", 'Image.open(path).convert("RGB").save(path)'),),
)
