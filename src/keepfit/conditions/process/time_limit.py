"""The time was up: a job's wall-clock limit, or the shell's CPU limit.

## What happened
The scheduler ends a job at its time limit with SIGTERM, and a little later with SIGKILL. The
shell's `ulimit -t` does it with SIGXCPU.

## How keepfit knows
*certain*: it ended by SIGXCPU. *likely*: the scheduler's own words ("DUE TO TIME LIMIT") are in the
last output, or SIGTERM came when the job's end time, which Slurm tells, was at hand.

## What to do
Ask for more time, or let it be continued: a job that saves its state can be requeued.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import by_exit, died_by, failed
from .scheduling import SIGXCPU, TIME_LIMIT, announced, ended_politely, job_at_its_end


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    if died_by(attempt, SIGXCPU):
        return Diagnosis("certain", "the CPU time limit (ulimit -t) was used up", (by_exit(attempt),))
    if told := announced(attempt, TIME_LIMIT):
        return Diagnosis("likely", "the job's time limit was reached", (told, by_exit(attempt)))
    if ended_politely(attempt) and job_at_its_end(attempt):
        words = Evidence("scheduler", "SIGTERM came as the job's end time was reached (SLURM_JOB_END_TIME)", "likely")
        return Diagnosis("likely", "the job's time limit was reached", (words, by_exit(attempt)))
    return None


CONDITION = Condition(
    code="KF506",
    name="time-limit",
    title="the time limit was reached",
    cause="time_limit",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(Remedy("ask for more time", "sbatch --time=…"),),
)
