"""Preempted: the machine was wanted for somebody else.

## What happened
A scheduler took the resources back (a higher priority, an owner's return, a spot instance's end)
and ended the job politely.

## How keepfit knows
*likely*: the scheduler's own words are in the last output, or the SIGTERM came from a scheduler's
daemon or from outside the pod.

## What to do
Nothing is wrong with the training. Requeue it (`sbatch --requeue`), and let it save its state at
SIGTERM.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import by_exit, failed
from .scheduling import PREEMPTION, announced, by_scheduler, ended_politely, job_at_its_end


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    told = announced(attempt, PREEMPTION)
    if told is None and ended_politely(attempt) and not job_at_its_end(attempt):
        told = by_scheduler(attempt)
    if told is None:
        return None
    return Diagnosis("likely", "preempted: the scheduler took the machine back", (told, by_exit(attempt)))


CONDITION = Condition(
    code="KF505",
    name="preempted",
    title="preempted: the scheduler took the machine back",
    cause="preempted",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(Remedy("requeue it", "sbatch --requeue; a Kubernetes Job with restartPolicy: OnFailure"),),
)
