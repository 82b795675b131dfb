"""A GPU ran out of memory.

## What happened
An allocation on the device failed. TensorFlow takes nearly the whole card in advance, so what
`nvidia-smi` shows says little; the framework's own message tells the shape, the op and the
allocator.

## How keepfit knows
*certain*: the exception that ended it names a GPU allocator. *likely*: its last lines do.

## What to do
A smaller micro-batch; mixed precision; and see whether another process holds the card.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..memory.allocation_failed import GPU
from ..reading import at, by_exit, error_evidence, error_strength, failed, log_evidence, said


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    error, line = attempt.error, said(attempt, GPU)
    words = f"{error.type}: {error.message}" if error else "\n".join((line or "",))
    if line is None or not any(mark in words for mark in ("OOM", "out of memory", "OUT_OF_MEMORY", "Exhausted")):
        return None
    evidence = (error_evidence(error) if error else log_evidence(line), by_exit(attempt))
    confidence = error_strength(error) if error else "likely"
    return Diagnosis(confidence, "a GPU ran out of memory", evidence, at(error.frame) if error else {})


CONDITION = Condition(
    code="KF601",
    name="gpu-out-of-memory",
    title="a GPU ran out of memory",
    cause="gpu_oom",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(Remedy("see who holds the card", "nvidia-smi --query-compute-apps=pid,used_memory --format=csv"),),
)
