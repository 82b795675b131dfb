"""The danger line: ending the command before the kernel picks a victim, and never a moment too soon.

Three lines can stand at once. A *fence* (our own cgroup) is exact. Without one the *budget* is held by
sampling: faster near the line, looking ahead by one interval, freezing (SIGSTOP) to measure exactly, and
going on if it was a false alarm. The *host* line stands where the machine itself would run out.
A limit of somebody else's cgroup is left to the kernel: it is exact there, and says so.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable

from ..facts import Danger, MemoryLimit
from ..machine import procfs
from ..machine.tree import ProcessTree, TreeReading
from .fence import Fence

NEAR = 0.80  # of the line: from here on sampled faster
CALM, ALERT = 0.05, 0.01  # seconds between samples
EXACT_SHARE = 0.05  # of our time may go into exact measurements of a tree (8 ms a GB each)
LOOKAHEAD = 1.5  # intervals of growth that must still fit below the line
HOST_RESERVE = 256 << 20
HOST_RESERVE_SHARE = 0.01
HOST_NEAR = 8  # times the reserve: below this every tick looks for itself
HOST_SAMPLES = 3  # consecutive fresh looks below the reserve


class TreeUse:
    """How much the tree uses, shared pages once: exact where it matters, a cheap bound elsewhere."""

    def __init__(self, tree: ProcessTree, clock: Callable[[], float] = time.monotonic) -> None:
        self._tree = tree
        self._clock = clock
        self._exact: int | None = None
        self._sum_then = 0
        self._next_exact = 0.0

    def estimate(self, reading: TreeReading, line: int) -> int:
        total = reading.anon + reading.shmem
        if reading.processes <= 1:
            return total
        own = total - reading.inherited
        if total < line * NEAR:
            return own  # even counted twice it is far from the line: the cheap number will do
        if self._exact is None or self._clock() >= self._next_exact:
            self.measure(own)
        if self._exact is None:
            return own  # the kernel does not tell: what is surely ours, never what may be counted twice
        return self._exact + max(0, own - self._sum_then)

    def measure(self, own: int) -> int | None:
        began = self._clock()
        self._exact = self._tree.shared_once()
        self._sum_then = own
        cost = self._clock() - began
        self._next_exact = self._clock() + max(0.1, cost / EXACT_SHARE)
        return self._exact


class SampledLine:
    """A budget without a cgroup of our own."""

    how = "sampled"

    def __init__(self, line: int, source: str, tree: ProcessTree) -> None:
        self.line = line
        self.source = source
        self._tree = tree
        self._use = TreeUse(tree)
        self._before: tuple[float, int] | None = None
        self.last = 0

    def interval(self) -> float:
        return ALERT if self.last >= self.line * NEAR else CALM

    def check(self, now: float, reading: TreeReading) -> Danger | None:
        use = self._use.estimate(reading, self.line)
        rate = 0.0
        if self._before is not None and now > self._before[0]:
            rate = max(0.0, (use - self._before[1]) / (now - self._before[0]))
        self._before = (now, use)
        self.last = use
        if use + rate * self.interval() * LOOKAHEAD < self.line:
            return None
        stop(self._tree.pids)
        exact = self._tree.shared_once()
        if exact is None:
            exact = use
        if exact >= self.line:
            return Danger(now, self.line, exact, self.source, self.how)
        self.last = exact
        resume(self._tree.pids)
        return None


class FencedLine:
    """A budget inside a fence: the kernel stops the command at the line and tells us."""

    def __init__(self, fence: Fence, source: str) -> None:
        self.fence = fence
        self._source = source

    def check(self, now: float) -> Danger | None:
        if not self.fence.reached():
            return None
        self.fence.freeze()
        use = self.fence.level.use or self.fence.budget
        return Danger(now, self.fence.budget, min(use, self.fence.budget), self._source, self.fence.how)


class HostLine:
    """The machine itself: nothing left to give, and no swap to give instead."""

    def __init__(self, tree: ProcessTree, fresh: Callable[[], dict[str, int]] = procfs.meminfo) -> None:
        self._tree = tree
        self._fresh = fresh
        self._low = 0
        self.is_near = False  # the machine has little left, whoever took it

    def check(self, now: float, reading: TreeReading, info: dict[str, int]) -> Danger | None:
        total = info.get("MemTotal", 0)
        reserve = min(HOST_RESERVE, int(total * HOST_RESERVE_SHARE))
        self.is_near = info.get("MemAvailable", 0) <= HOST_NEAR * reserve
        if not self.is_near:
            self._low = 0
            return None
        info = self._fresh()  # what was handed in may be a second old, and this is the moment that counts
        available = info.get("MemAvailable", 0)
        swap_left = info.get("SwapFree", 0) > info.get("SwapTotal", 0) // 20
        use = reading.anon + reading.shmem - reading.inherited
        ours = use > (total - available) // 2  # somebody else's flood is not ours to die for
        self._low = self._low + 1 if available < reserve and not swap_left and ours else 0
        if self._low < HOST_SAMPLES:
            return None
        stop(self._tree.pids)
        return Danger(now, total - reserve, use, "host memory", "sampled")


def rules_at_limit(limit: MemoryLimit | None) -> bool:
    """Whether a limit is one that nobody but us would enforce in time: Slurm's, where cgroups are not its means.

    A pod's own limit is a cgroup's, and its variables come in units that nobody can tell.
    """
    return limit is not None and limit.kind == "scheduler" and limit.source.startswith("Slurm")


def stop(pids: Iterable[int]) -> None:
    _signal_all(pids, signal.SIGSTOP)


def resume(pids: Iterable[int]) -> None:
    _signal_all(pids, signal.SIGCONT)


def hang_up(pids: Iterable[int]) -> None:
    _signal_all(pids, signal.SIGHUP)


def end(pids: Iterable[int]) -> None:
    _signal_all(pids, signal.SIGKILL)


def _signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue  # it ended by itself meanwhile


def is_stopped(pid: int) -> bool:
    known = procfs.stat(pid)
    return known is not None and known.state in "Tt"
