"""The judge: samples, records, guards and explains. It is forked from the front and may outlive it."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..blackbox import ring
from ..blackbox.journal import JournalWriter
from ..blackbox.pulse import Pulse
from ..blackbox.rundir import RunDirectory
from ..conditions.process.hang import Watchfulness
from ..facts import Danger, Exit, Finding, Sample, Stall, as_json
from ..machine import gpu, pidfd, pressure, procfs
from ..machine.tree import ProcessTree, TreeReading
from . import danger, fence, scene
from .link import Link
from .options import RunOptions
from .relay import Poller, Relay
from .vigil import Vigil

TICK = 0.05
DISCOVER_EVERY = 0.1  # newcomers
COUNT_EVERY = 0.2  # state, CPU, faults
DETAIL_EVERY = 1.0  # split, swap, I/O, open files, pressure, hang
SLOW_EVERY = 10.0  # the lane that reaches back for hours
STACKS_WAIT = 1.0  # seconds to wait for the stacks of a process that is about to be ended
UNKILLABLE = 5.0  # seconds after SIGKILL: what has not ended by then waits in the kernel, and cannot


class JournalFollower:
    """New lines of a journal that others write to as well."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0

    def new_events(self) -> list[dict[str, Any]]:
        try:
            if os.stat(self._path).st_size <= self._offset:
                return []
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                content = file.read(1 << 20)
        except OSError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        events = []
        for line in whole.splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
        return [event for event in events if isinstance(event, dict)]


@dataclass
class Subject:
    """The command under watch."""

    pid: int
    start: int
    attempt: int = 1
    watched: bool = False  # attached to, not started: read-only


class Judge:
    """One attempt, from its start to its verdict."""

    def __init__(
        self,
        options: RunOptions,
        run: RunDirectory,
        journal: JournalWriter,
        before: scene.Scene,
        link: Link | None,
        pulse: Pulse | None = None,
        made: fence.Fence | None = None,
        relay: Callable[[], Relay] | None = None,
        adopter: int | None = None,
    ) -> None:
        self._options = options
        self._run = run
        self._journal = journal
        self._scene = before
        self._link = link
        self._pulse = pulse
        self._fence = made
        self._make_relay = relay
        self._relay: Relay | None = None
        self._adopter = adopter
        self._ring: ring.RingWriter | None = None
        self._exit: Exit | None = None
        self._asked_to_end = False
        self._ended_at: float | None = None
        self._slow: dict[str, Any] = {}
        self._probe = gpu.GpuProbe()

    # --- life ---------------------------------------------------------------------------------------

    def run(self, subject: Subject) -> Exit | None:
        self._begin(subject)
        self._loop()
        self._finish()
        return self._exit

    def _begin(self, subject: Subject) -> None:
        self._subject = subject
        try:
            self._ring = ring.RingWriter(self._run.ring)
        except OSError as error:
            self._journal.write("trouble", what=f"no ring: {error.strerror}")
        self._tree = ProcessTree(subject.pid, ignore=(os.getpid(),), adopter=self._adopter)
        self._pidfd = pidfd.open_pid(subject.pid)
        self._follower = JournalFollower(self._run.journal)
        self._vigil = Vigil(subject.pid, self._run.stacks, self._options.hang_after)
        if self._fence is None and self._options.memory and not subject.watched:
            self._fence = fence.adopt(subject.pid, self._options.memory)
        self._lines()
        self._journal.write(
            "scene",
            n=subject.attempt,
            budget=self._options.memory,
            fence=self._fence.level.path if self._fence else None,
            **scene.opening(self._scene, self._tree),
        )

    def _lines(self) -> None:
        guarded = "memory" in self._options.guards and not self._subject.watched
        budget, limit = self._options.memory, self._scene.limit
        self._fenced = self._sampled = self._host = None
        if budget and self._fence is not None:
            self._fenced = danger.FencedLine(self._fence, "--memory")
        elif budget and not self._subject.watched:
            self._sampled = danger.SampledLine(budget, "--memory", self._tree)
        elif guarded and limit is not None and danger.rules_at_limit(limit):
            self._sampled = danger.SampledLine(limit.bytes, limit.source, self._tree)
        if guarded:
            self._host = danger.HostLine(self._tree)

    def _loop(self) -> None:
        now = time.monotonic()
        due = {"tick": now, "discover": now, "count": now, "detail": now, "slow": now + SLOW_EVERY}
        while self._exit is None:
            now = time.monotonic()
            if now >= due["tick"]:
                reading = self._look(now, due)
                interval = self._sampled.interval() if self._sampled else TICK
                due["tick"] = max(due["tick"] + interval, now + interval / 2)
                self._guard(now, reading)
                self._give_up_on_unkillable(now)
            self._wait(due["tick"])

    def _wait(self, until: float) -> None:
        poll = Poller()
        if self._link is not None and not self._link.closed:
            poll.want(self._link.fileno(), select.POLLIN)
        if self._fence is not None and self._fence.attention is not None and not self._asked_to_end:
            poll.want(self._fence.attention, self._fence.events)
        alone = self._link is None or self._link.closed
        if alone and self._pidfd is not None:
            poll.want(self._pidfd, select.POLLIN)
        if self._relay is not None:
            self._relay.register(poll)
        ready = poll.wait(until - time.monotonic())
        if self._fence is not None and ready.get(self._fence.attention or -1):
            self._at_the_fence()
        if self._link is not None and ready.get(self._link.fileno() if not self._link.closed else -1):
            self._listen()
        if self._relay is not None:
            self._relay.pump(ready)
        if alone:
            self._look_for_the_end(bool(self._pidfd is not None and ready.get(self._pidfd)))

    def _listen(self) -> None:
        assert self._link is not None
        while (message := self._link.receive()) is not None:
            if "exited" in message:
                self._exit = Exit(**message["exited"])
            if "unread" in message:
                # The user's reader left: with our copy closed too, the command learns it as it would alone.
                os.close(int(message["unread"]))
        if self._link.closed and self._exit is None:
            self._front_died()

    def _front_died(self) -> None:
        self._journal.write("trouble", what="the front died; the judge carries the output on")
        if self._make_relay is not None:
            self._relay = self._make_relay()

    def _look_for_the_end(self, signalled: bool) -> None:
        """Without the front nobody else sees the end: by pidfd where the kernel gives it, else by /proc."""
        gone = signalled or (
            self._pidfd is None and not procfs.same_process(self._subject.pid, self._subject.start, procfs.boot_id())
        )
        if not gone:
            return
        known = pidfd.exit_soon(self._pidfd, self._subject.pid)
        self._exit = known or Exit()
        self._journal.write("exit", seen_by="judge", **as_json(self._exit))
        if known is None:
            self._scene.lacked.append("exit status: it was not our child, and this kernel does not tell")

    # --- looking --------------------------------------------------------------------------------------

    def _look(self, now: float, due: dict[str, float]) -> TreeReading:
        self._tree.measure(now)
        if now >= due["discover"]:
            due["discover"] = now + DISCOVER_EVERY
            self._tree.discover()
        if now >= due["count"]:
            due["count"] = now + COUNT_EVERY
            self._tree.count(now)
        detailed = now >= due["detail"]
        if detailed:
            due["detail"] = now + DETAIL_EVERY
            self._tree.detail()
            self._surroundings(now)
        reading = self._tree.reading()
        sample = self._sample(now, reading)
        self._drain_pulse()
        if self._ring is not None:
            self._ring.sample(sample)
            if now >= due["slow"]:
                due["slow"] = now + SLOW_EVERY
                self._ring.sample(sample, ring.SLOW)
        if detailed:
            self._watch_over(sample)
        return reading

    def _sample(self, now: float, reading: TreeReading) -> Sample:
        if self._fence is not None:
            use = self._fence.level.use or 0
        elif self._sampled is not None:
            use = self._sampled.last
        else:
            use = reading.anon + reading.shmem - reading.inherited
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
            **self._slow,
        )

    def _surroundings(self, now: float) -> None:
        memory, io, cpu = (pressure.read(what) for what in ("memory", "io", "cpu"))
        limit, own = self._scene.limit, self._scene.placement
        level = next((lv for lv in own.levels if limit is not None and lv.path == limit.path), own.own)
        self._info = procfs.meminfo()
        self._slow = {
            "level_use": (level.use or 0) if level else 0,
            "host_available": self._info.get("MemAvailable", 0),
            "swapped_in": pressure.swapped_in(),
            "memory_pressure": memory.full if memory else 0.0,
            "io_pressure": io.full if io else 0.0,
            "cpu_pressure": cpu.some if cpu else 0.0,
        }
        if lines := self._scene.kernel.new_lines():
            self._journal.write("kernel", lines=lines)
        self._probe.poll(now)

    def _drain_pulse(self) -> None:
        if self._pulse is None:
            return
        records = self._pulse.new_records()
        for sequence, record in records:
            if self._ring is not None:
                self._ring.beat(record, sequence)
        if records:
            decoded = ring.BEATS.decode(records[-1][1])
            if decoded is not None:
                self._vigil.beat(ring.beat(decoded[1], decoded[2]))

    # --- guarding -------------------------------------------------------------------------------------

    def _guard(self, now: float, reading: TreeReading) -> None:
        if self._asked_to_end:
            return
        found = self._sampled.check(now, reading) if self._sampled else None
        if found is None and self._fenced is not None:
            found = self._fenced.check(now)
        if found is None and self._host is not None:
            found = self._host.check(now, reading, self._info)
        if found is not None:
            self._end_at_the_line(found)

    def _at_the_fence(self) -> None:
        assert self._fence is not None
        if self._fence.how == "cgroup-v1" and self._fence.attention is not None:
            try:
                os.read(self._fence.attention, 8)
            except BlockingIOError:
                return
        found = self._fenced.check(time.monotonic()) if self._fenced else None
        if found is not None and not self._asked_to_end:
            self._end_at_the_line(found)

    def _end_at_the_line(self, found: Danger) -> None:
        """Frozen; now what it was doing goes into the record, and then it ends."""
        self._asked_to_end = True
        now = time.monotonic()
        self._drain_pulse()
        if self._ring is not None:
            sample = self._sample(now, self._tree.reading())
            self._ring.sample(replace(sample, use=max(sample.use, found.use_bytes)))
        self._journal.write("danger", **as_json(found))
        self._end_command()

    def _end_command(self) -> None:
        self._tree.discover()
        pids = set(self._tree.pids)
        if self._fence is not None:
            pids |= set(self._fence.level.members)
        danger.end(pids)
        self._ended_at = time.monotonic()
        if self._fence is not None:
            try:
                self._fence.let_go()
            except OSError as error:
                self._journal.write("trouble", what=f"the fence would not open: {error.strerror}")

    def _give_up_on_unkillable(self, now: float) -> None:
        """A thread in an uninterruptible wait cannot be ended, and must not hold us: it is left behind."""
        if self._ended_at is None or now - self._ended_at < UNKILLABLE or self._exit is not None:
            return
        waits = ", ".join(procfs.waiting_in(self._subject.pid)) or "the kernel"
        self._scene.lacked.append(f"its end: killed, but still waiting in {waits}")
        self._exit = Exit(signal=signal.SIGKILL)
        self._journal.write("exit", seen_by="nobody", **as_json(self._exit))
        if self._link is not None:
            self._link.send(abandon=True)

    def _watch_over(self, sample: Sample) -> None:
        for event in self._follower.new_events():
            if event.get("event") == "agent" and isinstance(event.get("stack_signal"), int):
                self._vigil.armed(int(event["pid"]), int(event["stack_signal"]))
        if "hang" not in self._options.guards or self._asked_to_end:
            return
        doing = self._pulse.doing if self._pulse else "stepping"
        already = self._vigil.suspected
        found, stall = self._vigil.look(sample, doing, self._output_size())
        if stall is None:
            return
        if found is Watchfulness.SUSPECTED and not already:
            self._vigil.suspected = True
            self._warn(stall)
        elif found is Watchfulness.HANG and not self._subject.watched:
            self._end_hung(stall)

    def _output_size(self) -> int:
        total = 0
        for path in (self._run.stdout, self._run.stderr):
            try:
                total += os.stat(path).st_mtime_ns
            except OSError:
                continue
        return total

    def _warn(self, stall: Stall) -> None:
        message = f"no step for {stall.silent_seconds:.0f} s; its stacks are in the record, nothing was stopped"
        finding = Finding("KF504", "hang", "warning", "watch", message, data={"stall": as_json(stall)})
        self._journal.write("finding", **as_json(finding))
        self.say(f"keepfit: {message}")

    def _end_hung(self, stall: Stall) -> None:
        self._asked_to_end = True
        deadline = time.monotonic() + STACKS_WAIT
        stacks = stall.stacks
        while not stacks and time.monotonic() < deadline:
            stacks = self._vigil.stacks_by(time.monotonic())
            time.sleep(0.02)
        self._journal.write("stall", **as_json(replace(stall, stacks=stacks)))
        self._end_command()

    # --- the end --------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """The exit is known: close the record and say why."""
        self._drain_pulse()
        closing = scene.closing(self._scene, self._tree)
        if lines := closing.pop("kernel_lines"):
            self._journal.write("kernel", lines=lines)
        self._journal.write("deathbed", **closing)
        if self._relay is not None:
            self._relay.drain(5.0)
        self._probe.close()
        self._tree.close()
        if self._ring is not None:
            self._ring.close()
        if self._fence is not None:
            self._fence.remove()

    def say(self, text: str, verdict: bool = False) -> None:
        """A line for the user: through the front, which knows the terminal's mode, or directly."""
        if not text or (self._options.quiet and not verdict):
            return
        if self._link is not None and not self._link.closed:
            self._link.send(say=text)
        else:
            try:
                os.write(2, text.encode() + b"\n")
            except OSError:
                return  # nobody is reading any more


def ignore_terminal_signals() -> None:
    """In the judge: what the user types is for the command, not for us."""
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGTTOU,
        signal.SIGTSTP,
    ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
