"""keepfit ended it at the danger line: the memory budget was reached.

## What happened
The run was given a budget (`--memory SIZE`), or the machine (or a scheduler's promise) left it only
so much, and it stood at that line with nothing that could be given back. keepfit froze it before
the kernel picked a victim, wrote down what it was doing, and ended it.

Page cache never counts: a run that streams files may fill its cgroup with cache and is left alone.
Pages that forked workers share count once.

## How keepfit knows
It did it. With a cgroup of our own the line is exact to the page (v1: `oom_kill_disable` and an
eventfd; v2: `memory.high`); without one it is held by sampling, up to 100 times a second near the
line. If the kernel was faster inside our own cgroup it is the same death by another hand, and is
called the same.

## What to do
Give it more (`--memory`), or let it need less; `because` names the reason where the record shows
one.
"""

from __future__ import annotations

from ...facts import Attempt, Danger, Evidence, Remedy
from ..catalogue import OWN_ACT, Condition, Diagnosis
from ..reading import by_exit, failed, kernel_kill, size


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if attempt.danger is not None:
        danger = attempt.danger
        how = {
            "cgroup-v1": "frozen exactly at the line by our own cgroup",
            "cgroup-v2": "held at the line by our own cgroup",
        }.get(danger.how, "frozen by sampling")
        if danger.how == "import":
            return _cannot_hold_the_framework(attempt, danger)
        if danger.how == "planned":
            how = "it kept climbing, and was ended at a saved state before the line was reached"
        said = f"use {size(danger.use_bytes)} of {size(danger.line_bytes)} ({danger.source}); {how}"
        summary = f"ended by keepfit at the danger line: the budget of {size(danger.line_bytes)} was reached"
        if danger.source != "--memory":
            summary = f"ended by keepfit at the danger line: {danger.source} was used up"
        return Diagnosis("certain", summary, (Evidence("agent", said), by_exit(attempt)))
    kill = kernel_kill(attempt)
    if attempt.fence and kill is not None and kill.limit_path == attempt.fence and failed(attempt):
        said = f"the kernel killed pid {kill.pid} inside the cgroup of the budget ({attempt.fence})"
        summary = f"the budget of {size(attempt.budget or 0)} was reached; the kernel was faster than keepfit"
        main = kill.pid == attempt.pid
        where = {"process": "main" if main else "child", "pid": kill.pid}
        return Diagnosis("certain", summary, (Evidence("kernel", said), by_exit(attempt)), where)
    return None


def _cannot_hold_the_framework(attempt: Attempt, danger: Danger) -> Diagnosis:
    needed = f"needs {size(danger.use_bytes)}" if danger.use_bytes > danger.line_bytes else "needs more than that"
    summary = f"a budget of {size(danger.line_bytes)} cannot hold the framework, which {needed} before any model"
    said = f"the import alone stood at {size(danger.use_bytes)}; the budget was {size(danger.line_bytes)}"
    return Diagnosis("certain", summary, (Evidence("agent", said), by_exit(attempt)), {"phase": "import"})


CONDITION = Condition(
    code="KF103",
    name="memory-budget-reached",
    title="ended by keepfit at the danger line: the memory budget was reached",
    cause="memory_budget",
    specificity=OWN_ACT,
    autopsy=autopsy,
    remedies=(Remedy("give it a larger budget", "keepfit run --memory SIZE -- …"),),
)
