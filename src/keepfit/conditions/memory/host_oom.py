"""The kernel killed it: the whole machine ran out of memory.

## What happened
No limit was set, but the machine itself had nothing left to give. The kernel's out-of-memory killer
picks the process with the highest score, usually the largest one; that was this training, or one of
its workers.

## How keepfit knows
*certain*: the kernel log names this pid with `CONSTRAINT_NONE` (no cgroup limit was involved).
*likely*: the `oom_kill` counter of its cgroup moved and no level above it has a limit that was hit,
or nothing of this can be read but SIGKILL came while the host's free memory was gone.

## What to do
Need less, or stop what else is running. A little swap changes a kill into slowness; much swap in
use is worse than the kill (KF116).
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import KERNEL, Condition, Diagnosis
from ..reading import (
    by_exit,
    counter_moved,
    died_by,
    kernel_kill,
    level_at_limit,
    near_limit,
    passed_on,
    use_line,
)
from .cgroup_oom import SIGKILL, killed_by_kernel


def autopsy(attempt: Attempt) -> Diagnosis | None:
    for constraint in ("CONSTRAINT_NONE", "CONSTRAINT_MEMORY_POLICY", "CONSTRAINT_CPUSET"):
        if told := killed_by_kernel(attempt, constraint):
            return told
    if not (died_by(attempt, SIGKILL) or passed_on(attempt, SIGKILL)) or kernel_kill(attempt) is not None:
        return None
    line = use_line(attempt)
    more = (line,) if line else ()
    moved = counter_moved(attempt)
    if moved and not level_at_limit(attempt):
        summary = "killed by the kernel: out of memory, and no container limit was hit"
        return Diagnosis("likely", summary, (Evidence("cgroup", moved, "likely"), by_exit(attempt), *more))
    silent = attempt.kernel_log is None and not attempt.counters_after
    if silent and attempt.limit is not None and attempt.limit.kind == "host" and near_limit(attempt):
        summary = "probably killed by the kernel: SIGKILL while the machine's memory was gone"
        return Diagnosis("likely", summary, (by_exit(attempt), *more))
    return None


CONDITION = Condition(
    code="KF102",
    name="host-out-of-memory",
    title="killed by the kernel: the machine ran out of memory",
    cause="host_oom",
    specificity=KERNEL,
    autopsy=autopsy,
    remedies=(Remedy("hold the run to a budget, so that the machine stays usable", "keepfit run --memory SIZE -- …"),),
)
