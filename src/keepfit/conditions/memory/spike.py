"""Memory was level and then jumped.

## What happened
The training had run level for a while; then, within a few seconds, use rose by a large part of the
limit. Typical: the first validation, a checkpoint, a much longer sequence, a callback that predicts
on everything.

## How keepfit knows
*likely*: at least ten level seconds, then 30 % of the limit within three. A steady climb is never
called a spike.

## What to do
The phase tells what it was. Validate in smaller batches (`validation_batch_size`), bucket sequences
by length.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition
from .growth import MEMORY_CAUSES, is_spike


def because(attempt: Attempt, cause: str) -> Evidence | None:
    if cause not in MEMORY_CAUSES or attempt.limit is None:
        return None
    beat = attempt.last_beat
    if beat is None or beat.steps == 0 or not is_spike(attempt.samples, attempt.limit.bytes):
        return None
    return Evidence("samples", f"use was level, then jumped in phase {beat.phase}", "likely")


CONDITION = Condition(
    code="KF113",
    name="memory-spike",
    title="memory was level and then jumped",
    root="spike",
    because=because,
    remedies=(
        Remedy("look at what the phase does at once", "smaller validation batches, sequences bucketed by length"),
    ),
)
