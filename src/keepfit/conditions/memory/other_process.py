"""Others used the memory.

## What happened
The machine, or the cgroup, was full, but this run held only the smaller part of it. It was the
victim, not the cause.

## How keepfit knows
*likely*: it was killed for memory while its own tree used less than half of what was in use at that
level.

## What to do
Look at what else runs there (`ps aux --sort=-rss`), or give the training a cgroup of its own.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition
from ..reading import kernel_kill, size

SHARE = 0.5


def because(attempt: Attempt, cause: str) -> Evidence | None:
    last, limit = attempt.last_sample, attempt.limit
    if cause not in ("cgroup_oom", "host_oom") or last is None or limit is None or not attempt.peak:
        return None
    own = attempt.counters_before[0].path if attempt.counters_before else None
    if cause == "cgroup_oom" and limit.path == own and not attempt.shares_cgroup:
        return None  # nobody else lives there
    kill = kernel_kill(attempt)
    if kill is not None and kill.pid != attempt.pid:
        return None  # a child so short-lived that the samples missed it is no stranger
    total = last.level_use
    if attempt.peak >= SHARE * total or attempt.peak >= SHARE * limit.bytes:
        return None
    return Evidence("samples", f"this run used {size(attempt.peak)} of {size(total)} in use there", "likely")


CONDITION = Condition(
    code="KF115",
    name="memory-taken-by-others",
    title="others used the memory",
    root="other_process",
    because=because,
    remedies=(Remedy("see who else is there", "ps aux --sort=-rss | head"),),
)
