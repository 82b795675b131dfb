"""One `fit` of one model: its state between two steps, out to disk and back in."""

import json
import os
import time
from importlib import import_module

from ...blackbox import states
from .. import randomness
from ..packing import Unpackable, pack, unpack
from ..tensorflow import position, snapshot
from ..tensorflow.parts import tf
from . import callbacks as callback_states
from . import likeness
from .pipeline import JUMP, REPLAY, Pipeline, draw_epoch


class Session:
    def __init__(self, keeper, model, number, arguments):
        self._keeper = keeper
        self.model = model
        self.number = number
        self.arguments = arguments
        self.train, self.test = (Pipeline(role, keeper.has_room, keeper.lost_position) for role in ("train", "test"))
        self.owner = None  # Keras' epoch iterator of the training
        self.list = None  # Keras' CallbackList
        self.saved = None  # what to go on from: (generation, manifest)
        self.going_on = False  # until the first step after a restore
        self.logs = None  # of the last batch
        self.last_logs = None  # of the last one before it was cut off
        self._initial_epoch = None  # (what the model had), where it was changed
        self._reader = None
        self._likeness = None
        self._other_data = None  # in words, where the data are not those that were saved
        self._steps_before = 0

    # --- who is who -----------------------------------------------------------------------------------

    def role_of(self, epoch_iterator):
        if epoch_iterator is self.owner:
            return self.train
        return self.test if epoch_iterator is getattr(self.model, "_eval_epoch_iterator", None) else None

    def variables(self):
        """(name in the file, variable) of all that makes up the training's state, each once."""
        return snapshot.named(snapshot.groups_of(self.model))

    def configuration(self):
        """The model as JSON; an exception where it does not serialise."""
        serialize = import_module(self._keeper.source + "saving.serialization_lib").serialize_keras_object
        return json.dumps(serialize(self.model))

    # --- out ------------------------------------------------------------------------------------------

    def snapshot(self, kind, epoch, batch, between=False):
        """What is written, taken now: a Snapshot."""
        beside = snapshot.Beside()
        keep = beside.keep
        state = {
            **self.likeness(),
            "callbacks": callback_states.take(self.list.callbacks, keep) if self.list is not None else [],
            "random": pack(randomness.take(), keep),
            "rows": self._keeper.rows_of(self.model),
            "stop": bool(self.model.stop_training),
            "logs": self._packed_logs(keep),
            "optimizers": snapshot.built_optimizers(self.model),
        }
        self._keeper.name_forgetful(callback_states.lost(state["callbacks"]))
        positions, iterators = {}, {}
        positions["train"], iterators["train"] = self.train.place(self.owner, batch, between or kind == "end")
        tested = getattr(self.model, "_eval_epoch_iterator", None)
        known = self.test.pending or (tested is not None and self.test.begun and not self.test.repeats(tested))
        if kind == "step" and known:
            positions["test"], iterators["test"] = self.test.place(tested, 0, True)
        state["positions"] = positions
        manifest = states.Manifest(
            number=0,
            fit=self.number,
            kind=kind,
            epoch=epoch,
            batch=batch,
            step=self._steps_before + max(0, self._keeper.heart.steps - self._keeper.steps_at_start),
            written=time.time(),
            state=state,
        )
        # Between two epochs Keras has the next one's iterator at hand already, with the seeds in it.
        if iterators["train"] is not None and not positions["train"]["between"]:
            iterators["train" + position.START] = self.train.start
        held = {role: content for role, content in iterators.items() if content is not None}
        buffered = self.train.buffered + self.test.buffered
        return snapshot.Snapshot(manifest, self.variables(), beside, held, buffered)

    def _packed_logs(self, keep):
        if not isinstance(self.logs, dict):
            return None
        try:
            return pack(dict(self.logs), keep)
        except Unpackable:
            return None

    def likeness(self):
        """What model and data look like, looked at once."""
        if self._likeness is None:
            self._likeness = {
                "model": likeness.of_model(self.model),
                "data": likeness.of_data(self.owner) if self.owner is not None else None,
            }
        return self._likeness

    # --- in -------------------------------------------------------------------------------------------

    def difference(self):
        """Why the saved state is not of this training, in words; None where it is."""
        generation, manifest = self.saved
        self._reader = snapshot.Reader(generation)
        self.build()
        state, now = manifest.state, self.likeness()
        self._other_data = likeness.data_difference(state["data"], now["data"])
        found = likeness.model_difference(state["model"], now["model"]) or self._other_data
        return found or self._reader.misfit(self.variables())

    def put(self):
        """The state as it was saved; called again after Keras has reset or changed some of it."""
        _, manifest = self.saved
        self._reader.put(self.variables())
        if self.list is not None:
            callback_states.put(self.list.callbacks, manifest.state["callbacks"], self.fetch)
        replayed = any(place.get("how") == REPLAY for place in manifest.state["positions"].values())
        randomness.put(unpack(manifest.state["random"], self.fetch), host=manifest.kind == "end" or not replayed)

    def fetch(self, name):
        return self._reader.fetch(name)

    def go_on(self):
        """From the saved batch: the pipelines are told, and Keras begins at that epoch."""
        _, manifest = self.saved
        places = manifest.state["positions"]
        if self._other_data is None:  # else it was forced: the epoch begins with its first batch
            interleaved = places["train"]["how"] == REPLAY and places.get("test", {}).get("how") == REPLAY
            self._tell(self.train, self._validate_again if interleaved else None)
            if "test" in places and not interleaved:
                self._tell(self.test)
        self._initial_epoch = (self.model._initial_epoch,)
        self.model._initial_epoch = manifest.epoch
        self.last_logs = unpack(manifest.state.get("logs"), self.fetch)
        self._steps_before = manifest.step
        self._keeper.resume_rows(self.model, manifest.state.get("rows") or 0)
        self.going_on = True

    def move_data_on(self):
        """A `fit` that is skipped has drawn from its data. True where that has to be done again to have happened."""
        self._tell(self.train)
        if self.train.pending[0]["how"] == REPLAY:
            return True
        self.train.settle(self._keeper.enumerate, self.owner)
        return False

    def settle(self):
        """At the end: an epoch that never began again has left its position unreached."""
        if self.list is not None:
            callback_states.at_end(self.list.callbacks)
        if self.train.pending is not None:
            self.train.settle(self._keeper.enumerate, self.owner)

    def _tell(self, pipeline, before_step=None):
        generation, manifest = self.saved
        place = manifest.state["positions"][pipeline.role]
        prefix = os.path.join(str(generation.path), pipeline.role)
        state = position.load(prefix) if place["how"] == JUMP and os.path.exists(prefix + ".index") else None
        pipeline.go_on(place, state, position.load_start(prefix) if state is not None else None, before_step)

    def _validate_again(self, epoch):
        """In between, the validation drew its batches too, from the same generators."""
        arguments, model = self.arguments, self.model
        epoch += int(arguments.get("initial_epoch") or 0)
        if arguments.get("validation_data") is None or not model._should_eval(epoch, arguments["validation_freq"]):
            return
        if getattr(model, "_eval_epoch_iterator", None) is None:
            model._eval_epoch_iterator = self._keeper.make_validation(model, arguments)
        self.test.begun += 1
        model._eval_epoch_iterator.reset()  # as Keras does before every validation
        draw_epoch(self._keeper.enumerate, model._eval_epoch_iterator)

    def build(self):
        """What Keras builds when it traces the first step, so that there is something to restore into."""
        model, used = self.model, self.saved[1].state["optimizers"]
        spec = getattr(self.owner._distributed_dataset, "element_spec", None)
        optimizer = model.optimizer
        if "optimizer" not in used:
            model.optimizer = None  # compiled, but never used: it was not built
        try:
            model._symbolic_build(data_batch=_shaped(spec))
        except Exception:
            if not model.weights:  # a model that is never called as a whole has its parts built by now
                raise
        finally:
            model.optimizer = optimizer
        for name, trained in used.items():
            if not getattr(model, name).built:
                getattr(model, name).build([model.weights[index] for index in trained])

    @property
    def is_readable(self):
        return self._reader is not None

    def close(self):
        if self._initial_epoch is not None:
            (self.model._initial_epoch,) = self._initial_epoch
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class _Shape:
    def __init__(self, spec):
        self.shape, self.dtype = tuple(spec.shape), spec.dtype.name


def _shaped(spec):
    return tf().nest.map_structure(lambda leaf: _Shape(leaf) if isinstance(leaf, tf().TensorSpec) else leaf, spec)
