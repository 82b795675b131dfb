"""Killed by SIGKILL, and nothing proves why.

## What happened
SIGKILL ends a process without a word. The kernel's out-of-memory killer sends it, but so do people
(`kill -9`), schedulers, notebook servers and other guards. `Killed` and status 137 look the same
for all of them.

## How keepfit knows
It looked for proof of an out-of-memory kill and found none: *certain* that it was not one when the
kernel log is readable and names no kill of this process; *likely* when only the cgroup's counters
could be read and did not move; *possible* otherwise.

## What to do
Ask who else may kill here. `keepfit doctor` says how to let keepfit see more.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import SIGNAL, Condition, Diagnosis
from ..reading import by_exit, counter_moved, died_by, kernel_kill, near_limit, passed_on, passed_on_strength, size

SIGKILL = 9


def autopsy(attempt: Attempt) -> Diagnosis | None:
    vanished = _vanished(attempt)
    if not (died_by(attempt, SIGKILL) or passed_on(attempt, SIGKILL) or vanished):
        return None
    if kernel_kill(attempt) is not None or counter_moved(attempt):
        return None
    evidence = [by_exit(attempt)]
    last = attempt.samples[-1].use if attempt.samples else 0
    if attempt.limit is not None and last and not near_limit(attempt):
        words = f"it used {size(last)} of {size(attempt.limit.bytes)}: memory was not short"
        evidence.append(Evidence("samples", words, "likely"))
    if vanished:
        evidence.append(Evidence("samples", "supervisor and command ended together, without a word", "possible"))
        return Diagnosis("possible", "supervisor and command vanished together: killed from outside", tuple(evidence))
    if attempt.kernel_log is not None and attempt.kernel_pids_are_ours:
        evidence.append(Evidence("kernel", "the kernel log names no out-of-memory kill of it"))
        confidence = "certain"
    elif attempt.counters_after:
        evidence.append(Evidence("cgroup", "no cgroup level above it counted an out-of-memory kill", "likely"))
        confidence = "likely"
    else:
        confidence = "possible"
    whose = "killed by SIGKILL"
    if not died_by(attempt, SIGKILL):
        whose, confidence = "a child was killed by SIGKILL", passed_on_strength(attempt)
    return Diagnosis(
        confidence, f"{whose}; who sent it is unknown, and nothing shows that memory ran out", tuple(evidence)
    )


def _vanished(attempt: Attempt) -> bool:
    """No exit status, no word from the agent, not alive: it went down with its supervisor."""
    known = attempt.exit is not None and (attempt.exit.signal is not None or attempt.exit.status is not None)
    return not known and not attempt.alive and attempt.pid > 0 and attempt.error is None and not attempt.ended_well


CONDITION = Condition(
    code="KF508",
    name="killed-unknown",
    title="killed by SIGKILL, and nothing proves why",
    cause="killed_unknown",
    specificity=SIGNAL,
    autopsy=autopsy,
    remedies=(Remedy("ask who may send SIGKILL here", "a person, the scheduler, a notebook server, another guard"),),
)
