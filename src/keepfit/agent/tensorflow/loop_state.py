"""The state of a hand-written loop over `keepfit.steps(batches, state=…)`, saved and gone on from as that of a `fit`.

`state` names what the loop trains: models, optimizers, metrics, variables, generators, and whatever has `get_state`
and `set_state`, alone or in lists and dictionaries.
"""

import os
import time

from ...blackbox import states
from .. import randomness
from ..packing import has_state, pack, unpack
from . import position, snapshot
from .parts import tf
from .position import JUMP, REPLAY

_POSITION = "train"


class LoopState:
    """One loop: where it is, and all that it trains."""

    def __init__(self, heart, keeping, batches, state):
        self._heart = heart
        self._keeping = keeping
        self._batches = batches
        self._things = list(_flat(state))
        self._saver = None
        self._iterator = None  # in use
        self._resumed = None  # to be used first
        self._reader = None
        self._steps = 0
        self.number = keeping.begin()

    # --- going on -------------------------------------------------------------------------------------

    def begin(self):
        """(epoch, batch) to go on with; None where the loop had come to its end."""
        saved = self._keeping.end_of(self.number) or self._keeping.cut_of(self.number)
        if saved is None:
            return 0, 0
        generation, manifest = saved
        try:
            self._build()
            self._reader = snapshot.Reader(generation)
            difference = self._reader.misfit(self._variables())
        except Exception as error:
            difference = f"the saved state could not be read ({type(error).__name__}: {error})"
        if difference is not None and not (self._keeping.forced and self._reader is not None):
            self._keeping.refuse(self.number, difference)
            return 0, 0
        self._put(manifest)
        self._steps = manifest.step
        self._keeping.note("resumed", fit=self.number, epoch=manifest.epoch, batch=manifest.batch,
                           generation=manifest.number)  # fmt: skip
        if manifest.kind == "end":
            return None
        self._go_to(manifest, os.path.join(str(generation.path), _POSITION))
        return manifest.epoch, manifest.batch

    def _put(self, manifest):
        self._reader.put(self._variables())
        kept = unpack(manifest.state["kept"], self._reader.fetch)
        for thing, value in zip(self._with_state(), kept):
            thing.set_state(value)
        replayed = manifest.state["position"]["how"] == REPLAY and manifest.kind == "step"
        randomness.put(unpack(manifest.state["random"], self._reader.fetch), host=not replayed)

    def _go_to(self, manifest, prefix):
        """The iterator of the epoch that was cut off, at its batch."""
        place = manifest.state["position"]
        if place["how"] == JUMP:
            iterator = iter(self._batches)
            self._restore(iterator, prefix, manifest.batch)
            # Between two epochs it was at its end: the next begins with an iterator of its own.
            self._resumed = None if place["between"] else iterator
            return
        for _ in range(manifest.epoch):
            for _ in self._batches:
                pass
        if manifest.batch:
            self._resumed = iter(self._batches)
            for _ in range(manifest.batch):
                next(self._resumed)

    def _restore(self, iterator, prefix, batch):
        """To where it was. If that fails, the epoch goes on all the same, past as many batches."""
        try:
            position.restore(iterator, position.load(prefix))
            self._saver_of().start = start = position.load_start(prefix)
            position.reseed(self._batches, start)
        except Exception as error:
            self._keeping.lost_position(error)
            for _ in zip(range(batch), iterator):
                pass

    def epoch(self):
        """The batches of one epoch, or what is left of them."""
        resumed, self._resumed = self._resumed, None
        self._iterator = resumed if resumed is not None else iter(self._batches)
        if resumed is None:
            try:
                self._saver_of().begin(self._iterator)
            except Exception as error:
                self._heart.failed("loop_state", error)
        return self._iterator

    def _saver_of(self):
        if self._saver is None:
            self._saver = position.Saver(self._batches)
        return self._saver

    # --- saving ---------------------------------------------------------------------------------------

    def look(self, epoch, batch, between=False):
        """Between two steps; whatever fails, the loop goes on."""
        self._steps += not between
        counsel = self._heart.counsel
        if self._keeping.waits:
            return
        try:
            wanted = counsel.wants_state()
            self._keeping.saving.look(self, epoch, batch, between, wanted)
            if wanted:
                counsel.state_is_saved()
        except Exception as error:
            self._keeping.saving.rest()
            self._heart.failed("loop_state", error)

    def end(self, epochs):
        try:
            self._keeping.saving.end(self, epochs)
        except Exception as error:
            self._heart.failed("loop_state.end", error)

    def snapshot(self, kind, epoch, batch, between=False):
        beside = snapshot.Beside()
        saver = self._saver_of()
        taken = saver.take(self._iterator, self._has_room) if kind == "step" else None
        state = {
            "kept": pack([thing.get_state() for thing in self._with_state()], beside.keep),
            "random": pack(randomness.take(), beside.keep),
            "position": {"how": saver.how, "between": between},
        }
        manifest = states.Manifest(
            number=0, fit=self.number, kind=kind, epoch=epoch, batch=batch, step=self._steps, written=time.time(),
            state=state,
        )  # fmt: skip
        held = {_POSITION: taken, _POSITION + position.START: saver.start} if taken is not None else {}
        held = {name: state for name, state in held.items() if state is not None}
        return snapshot.Snapshot(manifest, self._variables(), beside, held, saver.bytes)

    def _has_room(self, size):
        return snapshot.has_room(size, self._heart.counsel.limit)

    def configuration(self):
        return None  # a loop has no model of its own

    # --- what it trains -------------------------------------------------------------------------------

    def _variables(self):
        groups = {}
        for index, thing in enumerate(self._things):
            if hasattr(thing, "_flatten_layers"):
                for name, members in snapshot.groups_of(thing).items():
                    groups[f"{name}-{index}" if name in groups else name] = members
            elif isinstance(thing, tf().random.Generator):
                groups[f"generator-{index}"] = [thing.state]
            elif isinstance(thing, tf().Variable):
                groups[f"variable-{index}"] = [thing]
            elif not has_state(thing):
                groups[f"optimizer-{index}"] = list(thing.variables)
        return snapshot.named(groups)

    def _with_state(self):
        return [thing for thing in self._things if has_state(thing)]

    def _build(self):
        """An optimizer makes its variables at its first step: here they are needed before."""
        trained = [v for thing in self._things for v in getattr(thing, "trainable_variables", ())]
        for thing in self._things:
            if hasattr(thing, "build") and hasattr(thing, "iterations") and not thing.built:
                thing.build(trained)


def _flat(state):
    if isinstance(state, dict):
        state = list(state.values())
    if isinstance(state, (list, tuple)):
        for thing in state:
            yield from _flat(thing)
        return
    known = hasattr(state, "variables") or isinstance(state, (tf().Variable, tf().random.Generator))
    if not known and not has_state(state):
        raise TypeError(
            "state: models, optimizers, metrics, variables, generators or objects with get_state and set_state "
            f"were expected; received {type(state).__name__}"
        )
    yield state
