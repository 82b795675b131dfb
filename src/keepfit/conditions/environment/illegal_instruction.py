"""Illegal instruction: a binary was built for another processor.

## What happened
The process executed an instruction this CPU does not have (SIGILL), usually AVX, AVX-512 or SVE
code from a wheel built for newer machines, on an old CPU or under an emulator.

## How keepfit knows
*certain*: it ended by SIGILL.

## What to do
Install a build for this CPU (an older wheel, conda-forge, or from source), or choose other nodes.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import SIGNAL, Condition, Diagnosis
from ..process.signals import ended_by

SIGILL = 4


def autopsy(attempt: Attempt) -> Diagnosis | None:
    return ended_by(attempt, SIGILL, "ended by SIGILL: an illegal instruction")


CONDITION = Condition(
    code="KF407",
    name="illegal-instruction",
    title="an illegal instruction: a binary was built for another processor",
    cause="illegal_instruction",
    specificity=SIGNAL,
    autopsy=autopsy,
    remedies=(Remedy("see what this CPU has", "lscpu | grep -i flags"),),
)
