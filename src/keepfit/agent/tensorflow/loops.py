"""Hand-written loops that asked for it: heartbeats, and a micro-batch that fits the budget.

The first steps are the measurements: a step with `keepfit.accumulate` in it is exact in any number of parts,
so nothing has to be tried beforehand.
"""

import functools
import time
from importlib import import_module

from ..peak import Peak, anonymous
from . import liveness, parts
from .accumulate import MICRO_BATCH
from .parts import tf

LOOK_EVERY = 0.1  # seconds


class Pacer:
    """Before and after every step of one loop."""

    def __init__(self, heart):
        self._heart = heart
        self._step = 0
        self._epoch = 0
        self._asked = False
        self._trying = 0
        self._peak = None
        self._began = 0.0
        self._look_at = 0.0
        self._heeded = 0

    def epoch(self, number):
        self._epoch, self._step = number, 0

    def before(self, batch, graph=None):
        heart = self._heart
        rows = int(parts.rows_of(batch)) if parts.leaves(batch) else 0
        heart.in_fit = True  # this loop tells its own steps
        heart.enter("train")
        heart.epoch, heart.batch_size = self._epoch, rows
        heart.doing("looping")
        heart.step_began(self._step)
        if not self._asked and heart.counsel.limit and rows:
            self._asked = True
            self._act(heart.counsel.ask("batch", **self._facts(rows, graph)))
        if self._trying:
            self._peak, self._began = Peak(), time.monotonic()

    def after(self):
        heart = self._heart
        heart.step_ended()
        heart.in_fit = False
        self._step += 1
        if self._trying and self._peak is not None:
            seconds = time.monotonic() - self._began
            tried = {"rows": self._trying, "peak": self._peak.read(), "seconds": seconds}
            self._trying, self._peak = 0, None
            self._act(heart.counsel.ask("tried", step="train", **tried))
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            wish = heart.counsel.wish
            if wish and wish != self._heeded:
                self._heeded = wish
                MICRO_BATCH.set(wish)

    def exhausted(self):
        """A device ran out of memory: whether a smaller micro-batch was set to try again with."""
        used = MICRO_BATCH.get() or self._heart.batch_size
        if used <= 1:
            return False
        answer = self._heart.counsel.ask("exhausted", step="train", rows=used) or {}
        MICRO_BATCH.set(int(answer.get("rows") or used // 2))
        return True

    def _act(self, answer):
        answer = answer or {}
        rows = int(answer.get("rows") or 0)
        if answer.get("do") == "try":
            self._trying = rows
            MICRO_BATCH.set(rows)
        elif answer.get("do") == "split":
            MICRO_BATCH.set(rows)
            self._heart.counsel.ask("splitting", step="train", rows=rows, notes=[])
        else:
            MICRO_BATCH.set(0)

    def _facts(self, rows, graph):
        estimate = None if graph is None else liveness.estimate(*graph, rows)
        return {"step": "train", "rows": rows, "key": "", "estimate": estimate, "in_use": anonymous(), "model": {}}


def guard(heart, step):
    """`step(*batch)`, with a heartbeat, a micro-batch that fits, and another try where a device's memory ran out."""
    pacer = Pacer(heart)
    is_exhaustion = import_module("..keras.retry", __package__).is_exhaustion

    @functools.wraps(step)
    def guarded(*batch, **options):
        pacer.before(batch, _graph(heart, step, batch, options) if not pacer._asked else None)
        try:
            while True:
                try:
                    return step(*batch, **options)
                except tf().errors.OpError as error:
                    on_device = bool(tf().config.list_logical_devices("GPU"))
                    if not on_device or not is_exhaustion(error) or not pacer.exhausted():
                        raise
        finally:
            pacer.after()

    return guarded


def _graph(heart, step, batch, options):
    """(graph, functions traced on the way) of a compiled step; None for an eager one."""
    if not hasattr(step, "get_concrete_function") or not heart.counsel.limit:
        return None
    heart.graphs = {}
    try:
        graph = step.get_concrete_function(*batch, **options).graph
        return graph, heart.graphs
    except Exception as error:  # it will say so itself when it is called
        heart.failed("loops", error)
        return None
    finally:
        heart.graphs = None


def steps(heart, batches, epochs):
    """The batches, one after the other, `epochs` times over."""
    pacer = Pacer(heart)
    for epoch in range(epochs):
        pacer.epoch(epoch)
        for batch in batches:
            pacer.before(batch if isinstance(batch, tuple) else (batch,))
            try:
                yield batch
            finally:
                pacer.after()
    heart.between()
