"""No more threads or processes.

## What happened
Creating a thread (or a process) was refused: a limit on the number of tasks was reached (`ulimit
-u`, a pids cgroup, the system's `threads-max`) or there was no memory for another stack. Libraries
react badly: a segfault or an abort often follows, and that is what the last line then shows.

## How keepfit knows
*certain*: the exception is "can't start new thread". *likely*: its last lines say that a thread or
process could not be created.

## What to do
Fewer workers and smaller thread pools (`OMP_NUM_THREADS`, `tf.config.threading`), or a higher limit
(`ulimit -u`, `pids.max`).
"""

from __future__ import annotations

import re

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import CRASHES, at, by_exit, error_evidence, error_strength, failed, is_a, log_evidence, said

_TEXT = re.compile(
    r"can't start new thread|pthread_create(?:\(\))? failed|Thread creation failed|Failed to create (?:a )?thread|"
    r"(?:fork|clone|thread|libgomp|std::system_error).*Resource temporarily unavailable",
    re.IGNORECASE,
)
_FORK = re.compile(r"Resource temporarily unavailable")


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    error, line = attempt.error, said(attempt, _TEXT, CRASHES)
    if line is None and is_a(error, "BlockingIOError") and error is not None and _FORK.search(error.message):
        line = error.message
    if line is None:
        return None
    evidence = [error_evidence(error) if error else log_evidence(line), by_exit(attempt)]
    most = max((sample.threads for sample in attempt.samples), default=0)
    if most:
        evidence.append(Evidence("samples", f"up to {most} threads were seen", "possible"))
    confidence = error_strength(error) if error else "likely"
    summary = "no more threads or processes could be created"
    return Diagnosis(confidence, summary, tuple(evidence), at(error.frame) if error else {})


CONDITION = Condition(
    code="KF403",
    name="threads-exhausted",
    title="no more threads or processes could be created",
    cause="threads_exhausted",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(
        Remedy("fewer workers and threads", "OMP_NUM_THREADS=…, fewer data workers"),
        Remedy("see the limit", "ulimit -u"),
    ),
)
