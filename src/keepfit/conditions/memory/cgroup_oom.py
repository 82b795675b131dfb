"""The kernel killed it: a container's (cgroup's) memory limit was reached.

## What happened
The process, together with everything else in its cgroup, asked for more memory than a limit above
it allows, and nothing could be given back. The kernel chose a victim and sent SIGKILL. No program
can catch that, so there is no message and no traceback: the shell prints `Killed`, a notebook says
its kernel died.

The limit need not be the one you know: every level above the process has one (container, pod, Slurm
step, systemd slice), and `free` or `psutil` show the host's memory, not the limit's.

## How keepfit knows
*certain*: the kernel log names this pid with `CONSTRAINT_MEMCG`, or the `oom_kill` counter of its
own cgroup moved while it died. *likely*: neither can be read, but SIGKILL came while the samples
stood at the limit. A bare `Killed` or status 137 alone is never called an out-of-memory kill.

## What to do
Need less (a smaller micro-batch, streaming instead of preloading), or raise the limit of the level
that is named. `keepfit run --memory SIZE` holds the run to a budget of its own and ends it with a
full report.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import KERNEL, Condition, Diagnosis
from ..reading import (
    by_exit,
    counter_moved,
    died_by,
    failed,
    kernel_kill,
    level_at_limit,
    near_limit,
    passed_on,
    use_line,
)

SIGKILL = 9


def killed_by_kernel(attempt: Attempt, constraint: str) -> Diagnosis | None:
    """A kill in this tree that the kernel log tells of, of the given kind."""
    kill = kernel_kill(attempt)
    if kill is None or not failed(attempt) or kill.constraint != constraint:
        return None
    main = kill.pid == attempt.pid
    level = f" of cgroup {kill.limit_path}" if kill.limit_path else ""
    said = f"“Killed process {kill.pid} ({kill.name})”, {kill.constraint}{level}"
    evidence = [Evidence("kernel", said), by_exit(attempt)]
    if moved := counter_moved(attempt):
        evidence.insert(0, Evidence("cgroup", moved))
    if line := use_line(attempt):
        evidence.append(line)
    whom = "" if main else f" a child process, {kill.name} (pid {kill.pid}),"
    what = (
        "the container's memory limit was reached"
        if constraint == "CONSTRAINT_MEMCG"
        else ("the machine ran out of memory")
    )
    return Diagnosis(
        # Of a child it is certain that it was killed, and likely that the rest died of it.
        "certain" if main or died_by(attempt, SIGKILL) else "likely",
        f"the kernel killed{whom or ' it'}: {what}" if whom else f"killed by the kernel: {what}",
        tuple(evidence),
        where={"process": "main" if main else "child", "pid": kill.pid},
    )


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if attempt.fence and (kill := kernel_kill(attempt)) and kill.limit_path == attempt.fence:
        return None  # our own budget: that is memory_budget
    if told := killed_by_kernel(attempt, "CONSTRAINT_MEMCG"):
        return told
    if not (died_by(attempt, SIGKILL) or passed_on(attempt, SIGKILL)) or kernel_kill(attempt) is not None:
        return None
    moved, level = counter_moved(attempt), level_at_limit(attempt)
    line = use_line(attempt)
    more = (line,) if line else ()
    if moved and level:
        sure = "likely" if attempt.shares_cgroup else "certain"
        at_limit = Evidence("cgroup", f"cgroup {level} hit its limit", "likely")
        summary = "killed by the kernel: the container's memory limit was reached"
        return Diagnosis(sure, summary, (Evidence("cgroup", moved, sure), at_limit, by_exit(attempt), *more))
    silent = attempt.kernel_log is None and not attempt.counters_after
    if silent and attempt.limit is not None and attempt.limit.kind == "cgroup" and near_limit(attempt):
        summary = "probably killed by the kernel: SIGKILL while use stood at the container's limit"
        return Diagnosis("likely", summary, (by_exit(attempt), *more))
    return None


CONDITION = Condition(
    code="KF101",
    name="cgroup-memory-limit",
    title="killed by the kernel: a container's memory limit was reached",
    cause="cgroup_oom",
    specificity=KERNEL,
    autopsy=autopsy,
    remedies=(
        Remedy(
            "raise the limit of the level that is named",
            "docker run -m, resources.limits.memory, sbatch --mem",
        ),
        Remedy("hold the run to a budget and see what it does", "keepfit run --memory SIZE -- …"),
    ),
)
