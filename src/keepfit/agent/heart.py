"""The agent's heartbeat: where the training is, written into the pulse without a system call."""

from __future__ import annotations

import atexit
import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from ..blackbox import wire
from ..blackbox.journal import JournalWriter
from ..blackbox.wire import PULSE_BEATS
from . import descriptors
from .counsel import Counsel
from .lifeline import describe

_PHASE = {name: number for number, name in enumerate(wire.PHASES)}
_DOING = {name: number for number, name in enumerate(wire.DOING)}
NAN = float("nan")
LOOK_EVERY = 0.1  # seconds
CLAIMED: Heart | None = None  # the heart of this process, once it has one


def claim(address: str, alone: bool = True) -> Heart | None:
    """The one heart of this run, or None when another process of the tree already has it.

    It is that of the process that has written itself down in the pulse, as long as that lives. `alone=False` does not
    ask for it yet: where a run is only planned, whichever process comes to train first is the one (`Heart.is_the_one`).
    """
    try:
        fd = descriptors.lift(os.open(address, os.O_RDWR | os.O_CLOEXEC))
        try:
            memory = descriptors.shared(fd, wire.PULSE_SIZE)
            magic, version, _, _ = wire.PULSE_HEAD.unpack_from(memory)
            if magic != wire.MAGIC or version != wire.PULSE_VERSION or (alone and not _take(fd, memory)):
                return None
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return None
    records, _ = PULSE_BEATS.scan(memory)
    global CLAIMED
    CLAIMED = heart = Heart(memory, sequence=records[-1][0] if records else 0, address=address)
    if alone:
        os.register_at_fork(after_in_child=heart.silence)
    atexit.register(heart.finish)
    return heart


def _take(fd: int, memory: Any) -> bool:
    """Whether this process is the one from now on: nobody is, or whoever was has ended (or has executed this one)."""
    fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)  # only while it is looked and written; it ends with the descriptor
    pid, start = wire.PULSE_OWNER.unpack_from(memory, wire.PULSE_OWNER_AT)
    own = os.getpid()
    if pid not in (0, own) and _start_of(pid) == start:
        return False
    wire.PULSE_OWNER.pack_into(memory, wire.PULSE_OWNER_AT, own, _start_of(own))
    return True


def _start_of(pid: int) -> int:
    """When a process was started, in ticks since boot; 0 where there is none (any more)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[19]) if fields[0] not in (b"Z", b"X") else 0
    except (OSError, ValueError, IndexError):
        return 0


class Pace:
    """The little that a step of `fit` looks at."""

    __slots__ = ("busy", "due", "first", "last", "slowest", "watched")

    def __init__(self) -> None:
        self.busy = True  # something more than a store is to be done at this step
        self.watched = False  # the user has callbacks of his own at every batch
        self.first = True  # the first batch of an epoch waits for buffers to fill
        self.due = 0.0  # when the loss is to be read again
        self.last = float("inf")  # when the last step began
        self.slowest = 0.0


def _no_tick(step: int) -> None:
    """Without a pulse nothing is stored."""


class Heart:
    """Phase, epoch, step and what it is doing. Every method is cheap and none of them raises."""

    def __init__(self, memory: Any, sequence: int = 0, address: str = "") -> None:
        self._memory = memory
        self._address = address  # of the pulse
        self._sequence = sequence
        self._pid = os.getpid()
        self.alive = memory is not None
        self.phase = "start"
        self.resting = "data"  # what a script does when it does nothing that we see
        self.epoch = -1
        self.step = -1
        self.steps = 0
        self.first_step = 0  # of the epoch, in this process
        self.batch_size = 0
        self.loss = NAN
        self.slowest = 0.0
        self._doing = 0
        self.in_fit = False  # inside a Keras loop, which tells its own steps
        self.loop: Any = None  # the hand-written loop, where TensorFlow is there
        self.counsel = Counsel(memory)
        self.at_ease: list[Callable[[], None]] = []  # what is looked after now and then, between two steps
        self.at_epoch: list[Callable[[Any], None]] = []  # told of the model whose epoch begins
        self.at_end: list[Callable[[], None]] = []  # told that an epoch, or a loop of the framework's, is over
        self.batch_told: Any = None  # how callbacks are told of a batch, where somebody has a say in that
        self.at_error: list[Callable[[BaseException], None]] = []  # told what ended it
        self.graphs: dict[str, Any] | None = None  # graphs by name, while somebody wants what is traced
        self.journal: JournalWriter | None = None
        self.planner: Any = None  # where the training is only planned
        self.identity: str | None = None  # which process of the run this is, where states are kept
        self.seed: int | None = None  # what its random generators begin with
        self.keeping: Any = None  # of states, where they are kept
        self.source: Any = None  # what the last loop of Keras' draws its batches from
        self.train_source: Any = None  # and the last `fit`
        self.callbacks: Any = None  # the list that was told of the last batch, and with what
        self.logs: Any = None
        self._traced = 0.0  # seconds spent tracing since the step began: not the step's own
        self._began: float | None = None
        self.pace = Pace()
        self.tick = self._make_tick() if self.alive else _no_tick
        if memory is not None:
            wire.PULSE_LIVE.pack_into(memory, wire.PULSE_LIVE_AT, -1, 0.0)

    @classmethod
    def silent(cls) -> Heart:
        """A heart that says nothing: the adapters need not ask whether there is one."""
        return cls(None)

    def silence(self) -> None:
        self.alive = False
        self.tick = _no_tick

    def is_the_one(self) -> bool:
        """Whether no other process of the run is; from then on this one is."""
        try:
            fd = descriptors.lift(os.open(self._address, os.O_RDWR | os.O_CLOEXEC))
            try:
                return _take(fd, self._memory)
            finally:
                os.close(fd)
        except OSError:
            return False

    def _make_tick(self) -> Callable[[int], None]:
        """What happens at every step of `fit`, and nothing more: one look at the clock and one store."""
        memory, pace, clock = self._memory, self.pace, time.monotonic
        store, where = wire.PULSE_LIVE.pack_into, wire.PULSE_LIVE_AT

        def tick(step: int) -> None:
            now = clock()
            took = now - pace.last
            if took > pace.slowest:
                pace.slowest = took
            pace.last = now
            if now >= pace.due:
                pace.busy = True
            store(memory, where, step, now)

        return tick

    @property
    def live_step(self) -> int:
        step: int = wire.PULSE_LIVE.unpack_from(self._memory, wire.PULSE_LIVE_AT)[0] if self.alive else -1
        return step

    def beat(self) -> None:
        if not self.alive:
            return
        steps = self.steps_so_far
        self._sequence += 1
        slowest = max(self.slowest, self.pace.slowest)
        known = (self._pid, _PHASE[self.phase], self._doing, self.epoch, self.step, steps, self.batch_size)
        try:
            record = PULSE_BEATS.encode(self._sequence, time.monotonic(), (*known, self.loss, slowest))
        except struct.error:  # somebody counts epochs in a way of his own
            return
        start = PULSE_BEATS.position(self._sequence)
        self._memory[start : start + PULSE_BEATS.size] = record

    def doing(self, what: str) -> None:
        """Between beats a single byte says what is going on (a callback, filling a buffer, …)."""
        if self.alive:
            self._doing = self._memory[wire.PULSE_DOING] = _DOING[what]

    def enter(self, phase: str) -> str:
        """Go into a phase; hand what this returns to `leave`."""
        before = self.phase
        if phase != before:
            self._set(phase)
        return before

    def leave(self, before: str) -> None:
        if before != self.phase:
            self._set(before)

    def _set(self, phase: str) -> None:
        self.phase = phase
        if self.alive:
            self._memory[wire.PULSE_PHASE] = _PHASE[phase]
            self.beat()

    def step_began(self, step: int) -> None:
        """One beat a step, at its beginning: the step named is the one in progress."""
        self.step = step
        self._began = time.monotonic()
        self._traced = 0.0
        self.beat()

    def step_is(self, step: int) -> None:
        """A step of `fit` that is over; those since the last word are counted with it."""
        self.steps += max(0, step - self.step)
        self.step = step

    @property
    def steps_so_far(self) -> int:
        """Those of `fit` that no beat has told yet included."""
        if self.in_fit and (live := self.live_step) > self.step:
            self.step_is(live)
        return self.steps

    def step_ended(self, count: int = 1) -> None:
        if self._began is not None:
            self.slowest = max(self.slowest, time.monotonic() - self._began - self._traced)
            self._began = None
        self.steps += count

    def traced(self, seconds: float) -> None:
        self._traced += seconds
        self.pace.last = time.monotonic()

    def look_around(self) -> None:
        """At most ten times a second, between two steps: time for what need not be looked at every step."""
        self._tell(self.at_ease)

    def ended(self) -> None:
        self._tell(self.at_end)

    def erred(self, error: BaseException) -> None:
        self._tell(self.at_error, error)

    def _tell(self, listeners: list[Callable[..., None]], *told: Any) -> None:
        """One that fails is not told again."""
        for listener in list(listeners):
            try:
                listener(*told)
            except Exception as error:
                listeners.remove(listener)
                self.failed(getattr(listener, "__qualname__", "look"), error)

    def glance(self) -> None:
        """Between two steps that no `fit` tells of: look around, if it is time to."""
        now = time.monotonic()
        if self.alive and now >= self.pace.due:
            self.pace.due = now + LOOK_EVERY
            self.look_around()

    def epoch_begins(self, model: Any) -> None:
        self._tell(self.at_epoch, model)

    def failed(self, what: str, error: Exception) -> None:
        """Something of ours failed, and the training goes on without it."""
        if self.journal is not None:
            self.journal.write("agent", state="failed", what=what, error=describe(error))

    def finish(self) -> None:
        """The interpreter ends; if an exception ends it, the phase stays the one in which that happened."""
        if getattr(sys, "last_value", None) is None:
            self.enter("end")

    def between(self) -> None:
        """Out of any loop we know: nothing that happens now is a hang of the training."""
        self.doing("between")
        self.leave(self.resting)
