"""Hand-written loops that asked for it: heartbeats, and a micro-batch that fits the budget.

The first steps are the measurements: a step with `keepfit.accumulate` in it is exact in any number of parts,
so nothing has to be tried beforehand.
"""

import functools
import time
from importlib import import_module

from ..peak import Peak, anonymous, keep_giving_back
from . import device, liveness, parts, tracing
from .accumulate import MICRO_BATCH
from .keeping import keeping_of
from .loop_state import LoopState
from .parts import tf

LOOK_EVERY = 0.1  # seconds


class Budget:
    """The micro-batch of one loop: asked for at its first step, measured over the next ones."""

    def __init__(self, heart):
        self._counsel = heart.counsel
        self.asked = False
        self._rows = 0
        self._trying = 0
        self._peak = None
        self._began = 0.0
        self._look_at = 0.0
        self._heeded = 0

    def begin(self, rows, graph=None):
        """A step of so many rows begins."""
        if not self.asked and self._counsel.limit and rows:
            self.asked = True
            self._rows = rows
            estimate = None if graph is None else liveness.estimate(*graph, rows)
            facts = {"key": "", "estimate": estimate, "in_use": anonymous(), "model": {}}
            self._act(self._counsel.ask("batch", step="train", rows=rows, **facts))
        if self._trying:
            self._peak, self._began = Peak(), time.monotonic()

    def end(self):
        """The step is over: if it was a measurement, it counts; if the supervisor wants less, it gets it."""
        if self._trying and self._peak is not None:
            tried = {"rows": self._trying, "peak": self._peak.read(), "seconds": time.monotonic() - self._began}
            self._trying, self._peak = 0, None
            self._act(self._counsel.ask("tried", step="train", **tried))
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            wish = self._counsel.wish
            if wish and wish != self._heeded:
                self._heeded = wish
                MICRO_BATCH.set(wish)
                self._counsel.ask("heeded", step="train", rows=wish)

    def turn(self, rows):
        """One step ended, the next begins."""
        self.end()
        self.begin(rows)

    def exhausted(self):
        """A device ran out of memory: whether a smaller micro-batch was set to try again with."""
        used = MICRO_BATCH.get() or self._rows
        if used <= 1:
            return False
        answer = self._counsel.ask("exhausted", step="train", rows=used) or {}
        MICRO_BATCH.set(int(answer.get("rows") or used // 2))
        return True

    def _act(self, answer):
        answer = answer or {}
        rows = int(answer.get("rows") or 0)
        if answer.get("do") == "try":
            keep_giving_back()
            self._trying = rows
            MICRO_BATCH.set(rows)
        elif answer.get("do") == "split":
            MICRO_BATCH.set(rows)
            self._counsel.ask("splitting", step="train", rows=rows)
        else:
            MICRO_BATCH.set(0)


def join(heart):
    """`accumulate` was called in a loop that only its dataset gives away: from now on that loop has a budget."""
    loop = heart.loop
    if loop is None or loop.budget is not None or heart.in_fit or not heart.alive:
        return
    loop.budget = Budget(heart)
    loop.budget.begin(heart.batch_size)


class Pacer:
    """The heartbeat and the budget of a loop that asked for both."""

    def __init__(self, heart):
        self._heart = heart
        self.budget = Budget(heart)
        self._step = 0
        self._epoch = 0

    def epoch(self, number, step=0):
        self._epoch, self._step = number, step

    def before(self, batch, graph=None):
        heart = self._heart
        rows = _rows(batch)
        heart.in_fit = True  # this loop tells its own steps
        heart.enter("train")
        heart.epoch, heart.batch_size = self._epoch, rows
        heart.doing("looping")
        heart.step_began(self._step)
        self.budget.begin(rows, graph)

    def after(self):
        self.budget.end()
        self._heart.step_ended()
        self._heart.in_fit = False
        self._step += 1
        self._heart.glance()


def _rows(batch):
    """Of the first thing that has any."""
    for leaf in parts.leaves(batch):
        shape = getattr(leaf, "shape", ())
        if shape is not None and len(shape) and shape[0]:
            return int(shape[0])
    return 0


def guard(heart, step):
    """`step(*batch)`, with a heartbeat, a micro-batch that fits, and another try where a device's memory ran out."""
    pacer = Pacer(heart)
    is_exhaustion = import_module("..keras.retry", __package__).is_exhaustion

    @functools.wraps(step)
    def guarded(*batch, **options):
        pacer.before(batch, _graph(heart, step, batch, options) if not pacer.budget.asked else None)
        try:
            while True:
                try:
                    return step(*batch, **options)
                except tf().errors.OpError as error:
                    if not device.accelerated() or not is_exhaustion(error) or not pacer.budget.exhausted():
                        raise
        finally:
            pacer.after()

    return guarded


def _graph(heart, step, batch, options):
    """(graph, functions traced on the way) of a compiled step; None for an eager one."""
    if not hasattr(step, "get_concrete_function") or not heart.counsel.limit:
        return None
    try:
        with tracing.collected(heart) as graphs:
            return step.get_concrete_function(*batch, **options).graph, graphs
    except Exception as error:  # it will say so itself when it is called
        heart.failed("loops", error)
        return None


def steps(heart, batches, epochs, state=None):
    """The batches, one after the other, `epochs` times over; with `state`, from where a dead process was cut off."""
    pacer = Pacer(heart)
    keeping = keeping_of(heart) if state is not None else None
    kept = LoopState(heart, keeping, batches, state) if keeping is not None else None
    place = kept.begin() if kept is not None else (0, 0)
    if place is None:  # it had come to its end
        return
    first, done = place
    for epoch in range(first, epochs):
        pacer.epoch(epoch, done)
        for batch in kept.epoch() if kept is not None else batches:
            pacer.before(batch if isinstance(batch, tuple) else (batch,))
            try:
                yield batch
            finally:
                pacer.after()
            done += 1
            if kept is not None:
                kept.look(epoch, done)
        done = 0
        if kept is not None:
            kept.look(epoch + 1, 0, between=True)
    if kept is not None:
        kept.end(epochs)
    heart.between()
