"""The batch is too large for the memory there is.

## What happened
Weights, optimizer and data were in place, and the first steps then asked for more than was left:
the activations of one batch, and their gradients. Their size grows with the batch almost linearly.

## How keepfit knows
*likely*: it died of memory in one of the first steps of the first epoch, and most of the growth
came after the training had begun. Later deaths have other reasons (a leak, a longer sequence,
validation).

## What to do
Split the batch into micro-batches and add the gradients up: the same effective batch in less
memory. A smaller `batch_size` also fits, but trains differently.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition
from ..reading import size
from .growth import CLIMB_SHARE, FEW_STEPS, MEMORY_CAUSES, before_training


def because(attempt: Attempt, cause: str) -> Evidence | None:
    beat = attempt.last_beat
    if cause not in MEMORY_CAUSES or beat is None or beat.phase not in ("train", "trace"):
        return None
    if beat.epoch > 0 or beat.steps >= FEW_STEPS or attempt.limit is None:
        return None
    base = before_training(attempt)
    grown = attempt.peak - base
    if grown < CLIMB_SHARE * max(1, attempt.limit.bytes - base):
        return None
    batch = f"batch {beat.batch_size}" if beat.batch_size else "its batch"
    words = f"step {max(0, beat.step)} took more than {size(grown)} at {batch}; {size(base)} were in use before it"
    return Evidence("samples", words, "likely")


CONDITION = Condition(
    code="KF112",
    name="batch-too-large",
    title="the batch is too large for this memory",
    root="batch_too_large",
    because=because,
    remedies=(Remedy("use a smaller batch, or accumulate gradients over micro-batches", "model.fit(…, batch_size=…)"),),
)
