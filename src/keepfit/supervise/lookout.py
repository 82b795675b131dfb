"""The lookout: one look at the tree and the machine around it, twenty times a second, into the ring.

What is cheap is read every time; what is dear (I/O counts, open files, pressure) once a second, and its
last value is carried along.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..blackbox import ring
from ..blackbox.journal import JournalWriter
from ..blackbox.pulse import Pulse
from ..facts import Beat, Sample
from ..machine import gpu, pressure, procfs
from ..machine.tree import ProcessTree, TreeReading
from .fence import Fence
from .scene import Scene

TICK = 0.05  # seconds between samples, as long as a look is cheap
SLOWEST_TICK = 0.19  # however many processes there are: five samples a second
SHARE = 0.01  # of one core may go into each kind of looking; dearer looks come less often
NEWCOMERS_EVERY = 0.25  # where the kernel says that there may be some
DISCOVER_EVERY = 1.0  # whatever it says
COUNT_EVERY = 0.25  # state, CPU, faults
DETAIL_EVERY = 1.0  # split, swap, I/O, open files, pressure
SLOW_EVERY = 10.0  # the lane that reaches back for hours


class Lookout:
    """Reads, and writes down what it read. `detailed` tells whether the last look was a thorough one."""

    def __init__(
        self,
        tree: ProcessTree,
        scene: Scene,
        journal: JournalWriter,
        writer: ring.RingWriter | None,
        pulse: Pulse | None,
        fence: Fence | None,
    ) -> None:
        self.tree = tree
        self._scene = scene
        self._journal = journal
        self._ring = writer
        self._pulse = pulse
        self.fence = fence
        self._probe = gpu.GpuProbe()
        now = time.monotonic()
        self._due = {"discover": now, "newcomers": now, "count": now, "detail": now, "slow": now + SLOW_EVERY}
        self._carried: dict[str, Any] = {}
        self._cost = 0.0
        self.memory: dict[str, int] = {}  # /proc/meminfo as of the last thorough look
        self.detailed = False
        self.last_beat: Beat | None = None

    def _when_due(self, what: str, now: float, every: float, work: Callable[[], None]) -> bool:
        """Do the work if its time has come; the dearer it was, the longer until the next time."""
        if now < self._due[what]:
            return False
        work()
        self._due[what] = now + max(every, (time.monotonic() - now) / SHARE)
        return True

    def look(self, now: float, use: int | None = None) -> tuple[TreeReading, Sample]:
        """One sample. `use` overrides the cheap estimate where somebody knows better (the danger line)."""
        if not self._when_due("discover", now, DISCOVER_EVERY, self.tree.discover):
            self._when_due("newcomers", now, NEWCOMERS_EVERY, self.tree.discover_if_any)
        self._when_due("count", now, COUNT_EVERY, lambda: self.tree.count(now))
        self.detailed = self._when_due("detail", now, DETAIL_EVERY, self.tree.detail)
        if self.detailed:
            self._surroundings(now)
        began = time.monotonic()
        self.tree.measure(now)
        reading = self.tree.reading()
        sample = self._sample(now, reading, use)
        if self._ring is not None:
            writer = self._ring
            writer.sample(sample)
            self._when_due("slow", now, SLOW_EVERY, lambda: writer.sample(sample, ring.SLOW))
        cost = time.monotonic() - began
        # Smoothed: one look that was interrupted says nothing about the next.
        self._cost += (cost - self._cost) / 8
        return reading, sample

    @property
    def interval(self) -> float:
        """Seconds until the next look: twenty a second, fewer where a look is dear (hundreds of processes)."""
        return min(SLOWEST_TICK, max(TICK, self._cost / SHARE))

    def _sample(self, now: float, reading: TreeReading, use: int | None) -> Sample:
        if use is None:
            fenced = self.fence.level.use if self.fence is not None else None
            use = fenced if fenced is not None else reading.anon + reading.shmem - reading.inherited
        return Sample(
            time=now,
            processes=min(reading.processes, 65535),
            threads=reading.threads,
            state=reading.state,
            rss=reading.rss,
            anon=reading.anon,
            file=reading.file,
            shmem=reading.shmem,
            swap=reading.swap,
            use=max(0, use),
            cpu=reading.cpu,
            read_bytes=reading.read_bytes,
            write_bytes=reading.write_bytes,
            faults=reading.faults,
            major_faults=reading.major_faults,
            open_files=reading.open_files,
            **self._carried,
        )

    def _surroundings(self, now: float) -> None:
        memory, io, cpu = (pressure.read(what) for what in ("memory", "io", "cpu"))
        limit, placement = self._scene.limit, self._scene.placement
        bound = (level for level in placement.levels if limit is not None and level.path == limit.path)
        level = next(bound, placement.own)
        self.memory = procfs.meminfo()
        self._carried = {
            "level_use": (level.use or 0) if level else 0,
            "host_available": self.memory.get("MemAvailable", 0),
            "swapped_in": pressure.swapped_in(),
            "memory_pressure": memory.full if memory else 0.0,
            "io_pressure": io.full if io else 0.0,
            "cpu_pressure": cpu.some if cpu else 0.0,
        }
        if lines := self._scene.kernel.new_lines():
            self._journal.write("kernel", lines=lines)
        before = self._probe.latest
        if (found := self._probe.poll(now)) is not None and before is None:
            self._journal.write("gpus", gpus=found)

    def drain_pulse(self) -> None:
        """Move the agent's beats into the ring, and remember the last one."""
        if self._pulse is None:
            return
        for _, record in self._pulse.new_records():
            if (decoded := ring.BEATS.decode(record)) is not None:
                self._heard(ring.beat(decoded[1], decoded[2]))
        step, began = self._pulse.live
        last = self.last_beat
        if last is not None and last.phase == "train" and began > last.time and step >= 0:
            self._heard(last.gone_on(began, step, self._pulse.doing))

    def _heard(self, beat: Beat) -> None:
        self.last_beat = beat
        if self._ring is not None and "?" not in (beat.phase, beat.doing):
            self._ring.beat(beat)

    @property
    def doing(self) -> str:
        return self._pulse.doing if self._pulse is not None else "stepping"

    @property
    def gpus(self) -> list[dict[str, Any]] | None:
        return self._probe.latest

    def close(self) -> None:
        self._probe.close()
        self.tree.close()
        if self._ring is not None:
            self._ring.close()
