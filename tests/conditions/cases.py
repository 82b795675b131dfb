"""Attempts made up for detectors: only what a test is about differs from a plain one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keepfit.facts import Attempt, Beat, Disk, Exit, MemoryLimit, OomCounters, PythonError, Record, Sample, Stall

GIB = 1 << 30
PID = 4758


def attempt(**more: Any) -> Attempt:
    plain = Attempt(
        pid=PID,
        started=0.0,
        ended=60.0,
        exit=Exit(status=1),
        argv=("python", "train.py"),
        limit=MemoryLimit(4 * GIB, "cgroup /box (memory.max)", "cgroup", "/box"),
        kernel_log=(),
        counters_before=(OomCounters("/box", 0, 0, 4 * GIB, GIB),),
        counters_after=(OomCounters("/box", 0, 0, 4 * GIB, GIB),),
        samples=samples([GIB] * 20),
        disks=(Disk("cwd", "/data", 50 * GIB, 100 * GIB), Disk("shm", "/dev/shm", GIB, GIB)),
    )
    return replace(plain, **more)


def samples(uses: list[int], step: float = 1.0, **more: Any) -> tuple[Sample, ...]:
    return tuple(
        Sample(time=n * step, use=use, anon=use, host_available=20 * GIB, **more) for n, use in enumerate(uses)
    )


def beat(time: float, phase: str = "train", **more: Any) -> Beat:
    return Beat(time=time, pid=PID, phase=phase, **more)


def killed(**more: Any) -> Attempt:
    return attempt(exit=Exit(signal=9), **more)


def kernel_kill(pid: int = PID, constraint: str = "MEMCG", limit: str = "/box", task: str = "/box") -> tuple[str, ...]:
    where = f"oom_memcg={limit},task_memcg={task}" if constraint == "MEMCG" else f"global_oom,task_memcg={task}"
    return (
        f"oom-kill:constraint=CONSTRAINT_{constraint},nodemask=(null),cpuset=/,mems_allowed=0,{where},"
        f"task=python,pid={pid},uid=0",
        f"{'Memory cgroup out' if constraint == 'MEMCG' else 'Out'} of memory: Killed process {pid} (python) x",
    )


def error(type: str = "ValueError", message: str = "bad", **more: Any) -> PythonError:
    return PythonError(type=type, message=message, **more)


def stall(**more: Any) -> Stall:
    return Stall(time=50.0, silent_seconds=95.0, rule="progress", **more)


def record(case: Attempt) -> Record:
    return Record(run="r", attempts=(case,))
