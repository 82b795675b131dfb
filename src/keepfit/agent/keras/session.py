"""One `fit` of one model: its state between two steps, out to disk and back in."""

import os
import time

from ...blackbox import safetensors, states
from .. import randomness
from ..packing import Unpackable, pack, unpack
from ..peak import anonymous
from ..tensorflow import variables
from . import callbacks as callback_states
from . import likeness
from .pipeline import JUMP, REPLAY, Pipeline, draw_epoch, write_state

MARGIN = 0.9  # of the limit: a copy that would go beyond is not made
TENSOR = "value"  # group of arrays that no variable holds: callbacks', generators'


class Session:
    def __init__(self, keeper, model, number, arguments):
        self._keeper = keeper
        self.model = model
        self.number = number
        self.arguments = arguments
        self.train, self.test = Pipeline("train"), Pipeline("test")
        self.owner = None  # Keras' epoch iterator of the training
        self.list = None  # Keras' CallbackList
        self.saved = None  # what to go on from: (generation, manifest)
        self.going_on = False  # until the first step after a restore
        self.logs = None  # of the last batch
        self._reader = None
        self._likeness = None
        self._steps_before = 0

    # --- who is who -----------------------------------------------------------------------------------

    def role_of(self, epoch_iterator):
        if epoch_iterator is self.owner:
            return self.train
        return self.test if epoch_iterator is getattr(self.model, "_eval_epoch_iterator", None) else None

    def variables(self):
        """(name in the file, variable) of all that makes up the training's state, each once."""
        model, seen, found = self.model, set(), []
        seeds, extras = _seeds_and_extras(model)
        groups = {
            "model": model.weights,
            "seed": seeds,
            "metric": model.metrics_variables,
            "optimizer": getattr(model.optimizer, "variables", ()),
            "extra": extras,
        }
        for group, members in groups.items():
            for variable in members:
                if id(variable) not in seen:
                    seen.add(id(variable))
                    path = getattr(variable, "path", None) or getattr(variable, "name", "")
                    found.append((f"{group}/{len(found):05d}/{path}", variable))
        return found

    # --- out ------------------------------------------------------------------------------------------

    def snapshot(self, kind, epoch, batch, between=False):
        """What is written, taken now: a Snapshot."""
        beside = {}  # arrays that go with the variables

        def keep(array):
            name = f"{TENSOR}/{len(beside):05d}"
            beside[name] = array
            return name

        state = {
            **self.likeness(),
            "callbacks": callback_states.take(self.list.callbacks, keep) if self.list is not None else [],
            "random": pack(randomness.take(), keep),
            "rows": self._keeper.rows_of(self.model),
            "stop": bool(self.model.stop_training),
            "logs": self._packed_logs(keep),
            "end": kind == "end",
        }
        positions, iterators = {}, {}
        if kind == "step":
            positions["train"], iterators["train"] = self.train.place(self.owner, batch, between)
            tested = getattr(self.model, "_eval_epoch_iterator", None)
            if tested is not None and self.test.begun and not self.test.repeats(tested):
                positions["test"], iterators["test"] = self.test.place(tested, 0, True)
        else:
            positions["train"] = {"how": self.train.how or REPLAY, "epochs": self.train.begun}
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
        held = {role: content for role, content in iterators.items() if content is not None}
        return Snapshot(manifest, self.variables(), beside, held)

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
        self.build()
        state, now = manifest.state, self.likeness()
        found = likeness.model_difference(state["model"], now["model"])
        if found is None and state.get("data") is not None:
            found = likeness.data_difference(state["data"], now["data"])
        return found or self._misfit(generation)

    def _misfit(self, generation):
        self._reader = safetensors.Reader(str(generation.path / states.STATE))
        slots = self._reader.slots
        wanted = [variables.slot_of(name, variable) for name, variable in self.variables()]
        held = [slot for name, slot in slots.items() if not name.startswith(TENSOR + "/")]
        if len(wanted) != len(held):
            return f"{len(wanted)} variables where {len(held)} were saved"
        for slot, other in zip(wanted, held):
            if (slot.dtype, slot.shape) != (other.dtype, other.shape):
                return f"{slot.name}: {slot.shape} {slot.dtype} where {other.shape} {other.dtype} was saved"
        return None

    def put(self, everything=True):
        """The state as it was saved; called again after Keras has reset or changed some of it."""
        _, manifest = self.saved
        names = [name for name in self._reader.slots if not name.startswith(TENSOR + "/")]
        for name, (_, variable) in zip(names, self.variables()):
            slot = self._reader.slots[name]
            variable.assign(variables.array_of(slot, self._reader.read(name)))
        if everything and self.list is not None:
            callback_states.put(self.list.callbacks, manifest.state["callbacks"], self.fetch)
        replayed = any(place.get("how") == REPLAY for place in manifest.state["positions"].values())
        randomness.put(unpack(manifest.state["random"], self.fetch), host=manifest.kind == "end" or not replayed)

    def fetch(self, name):
        return variables.array_of(self._reader.slots[name], self._reader.read(name)).copy()

    def go_on(self):
        """From the saved batch: the pipelines are told, and Keras begins at that epoch."""
        generation, manifest = self.saved
        places = manifest.state["positions"]
        prefix = str(generation.path)
        interleaved = places["train"]["how"] == REPLAY and places.get("test", {}).get("how") == REPLAY
        self.train.go_on(places["train"], os.path.join(prefix, "train"), self._validate_again if interleaved else None)
        if "test" in places and not interleaved:
            self.test.go_on(places["test"], os.path.join(prefix, "test"))
        self.model._initial_epoch = manifest.epoch
        self.logs = unpack(manifest.state.get("logs"), self.fetch)
        self._steps_before = manifest.step
        self._keeper.resume_rows(self.model, manifest.state.get("rows") or 0)
        self.going_on = True

    def _validate_again(self, epoch):
        """In between, the validation drew its batches too, from the same generators."""
        arguments, model = self.arguments, self.model
        epoch += int(arguments.get("initial_epoch") or 0)
        if arguments.get("validation_data") is None or not model._should_eval(epoch, arguments["validation_freq"]):
            return
        if getattr(model, "_eval_epoch_iterator", None) is None:
            model._eval_epoch_iterator = self._keeper.make_validation(model, arguments)
        self.test.begun += 1
        draw_epoch(self._keeper.enumerate, model._eval_epoch_iterator)

    def build(self):
        """What Keras builds when it traces the first step, so that there is something to restore into."""
        model = self.model
        spec = getattr(self.owner._distributed_dataset, "element_spec", None)
        if spec is not None:
            model._symbolic_build(data_batch=_shaped(spec))

    def close(self):
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class Snapshot:
    """A state that is on its way to the disk."""

    def __init__(self, manifest, named, beside, iterators):
        self.manifest = manifest
        self._beside = list(beside.items())
        self._iterators = iterators
        kept = [(name, variable) for name, variable in named if variables.holdable(variable.dtype)]
        self.left_out = [name for name, variable in named if not variables.holdable(variable.dtype)]
        self._slots = [variables.slot_of(name, variable) for name, variable in kept]
        self._held = [variable for _, variable in kept]  # variables, or their values once they were copied
        self.bytes = sum(slot.bytes for slot in self._slots)

    def copy(self):
        """The values now. Where it is not called they are read when they are written: then nothing may train."""
        self._held = [variables.read(variable) for variable in self._held]

    def write(self, draft):
        """Everything, and the manifest last; returns that."""
        slots = list(self._slots)
        for name, array in self._beside:
            slots.append(variables.slot_of(name, array))
        for role, state in self._iterators.items():
            write_state(state, draft.path, role)
        self._iterators = {}
        draft.write(states.STATE, lambda file: safetensors.write(file, slots, self._contents()))
        draft.adopt()
        return draft.complete(self.manifest)

    def _contents(self):
        for index, held in enumerate(self._held):
            value = variables.read(held) if hasattr(held, "assign") else held
            self._held[index] = None  # once it is written its memory is free
            yield variables.content(value)
        for _, array in self._beside:
            yield variables.content(array)


def fits(snapshot, limit):
    """Whether there is room for a second copy of what is saved."""
    return not limit or anonymous() + snapshot.bytes < MARGIN * limit


class _Shape:
    def __init__(self, spec):
        self.shape, self.dtype = tuple(spec.shape), spec.dtype.name


def _shaped(spec):
    from ..tensorflow.parts import tf

    return tf().nest.map_structure(lambda leaf: _Shape(leaf) if isinstance(leaf, tf().TensorSpec) else leaf, spec)


def _seeds_and_extras(model):
    """States of the layers' generators, and variables of TensorFlow's own that hang on a layer."""
    from ..tensorflow.parts import tf

    seeds, extras = [], []
    for layer in model._flatten_layers():
        seeds += [generator.state for generator in getattr(layer, "_seed_generators", ())]
        for value in list(vars(layer).values()):
            if isinstance(value, tf().Variable):
                extras.append(value)
            elif isinstance(value, tf().random.Generator):
                extras.append(value.state)
    return seeds, extras


__all__ = ["JUMP", "REPLAY", "Session", "Snapshot", "fits"]
