"""Swap in use: not dead, not moving.

## What happened
More memory is in use than there is RAM, and pages are read back from swap as fast as others are
written out. Every step touches all weights, so every step waits for the disk.

## How keepfit knows
*likely*: the training stopped stepping while memory pressure (PSI, all tasks waiting) stood above
20 %, or pages came back from swap at more than 8 MiB a second.

## What to do
Need less memory, not more swap: too little swap gets a run killed, swap *in use* makes it crawl.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition
from ..reading import size

PRESSURE = 20.0
RATE = 8 << 20


def because(attempt: Attempt, cause: str) -> Evidence | None:
    stall = attempt.stall
    if cause != "hang" or stall is None:
        return None
    if stall.swap_in_rate < RATE and not (stall.memory_pressure >= PRESSURE and stall.swap_in_rate > 0):
        return None
    words = f"swap was read back at {size(stall.swap_in_rate)}/s, memory pressure {stall.memory_pressure:.0f} %"
    return Evidence("samples", words, "likely")


CONDITION = Condition(
    code="KF116",
    name="swap-thrash",
    title="the machine was swapping, not training",
    root="swap_thrash",
    because=because,
    remedies=(Remedy("hold the run to the RAM there is", "keepfit run --memory SIZE -- …"),),
)
