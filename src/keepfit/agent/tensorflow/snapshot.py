"""A state on its way to the disk, and one on its way back."""

import os
from dataclasses import replace

from ...blackbox import safetensors, states
from ..peak import anonymous, most
from . import position, variables
from .parts import tf

MARGIN = 0.9  # of the limit: a copy that would go beyond is not made
BETWEEN = 0.94  # the same between two steps, when nothing else is at work
TENSOR = "value/"  # arrays that no variable holds: callbacks', generators'


def groups_of(model):
    """All that makes up the state of a Keras model and its training, by what it is."""
    seeds, extras = seeds_and_extras(model)
    return {
        "model": model.weights,
        "seed": seeds,
        "metric": getattr(model, "metrics_variables", ()),
        "optimizer": [v for _, optimizer in optimizers_of(model) if optimizer.built for v in optimizer.variables],
        "extra": extras,
    }


def forward_state(model):
    """What a forward pass depends on: (name, variable), without metrics and optimizer."""
    groups = groups_of(model)
    return named({name: groups[name] for name in ("model", "seed", "extra")})


def optimizers_of(model):
    """(attribute, optimizer) of all that a model has: the compiled one, and those of a `train_step` of its own."""
    found = {"optimizer": getattr(model, "optimizer", None)}
    found.update((name, value) for name, value in vars(model).items() if not name.startswith("_"))
    kept, seen = [], set()
    for name, value in found.items():
        if hasattr(value, "apply_gradients") and hasattr(value, "iterations") and id(value) not in seen:
            seen.add(id(value))
            kept.append((name, value))
    return kept


def built_optimizers(model):
    """{attribute: which weights it trains}, so that it can be built again."""
    places = {id(variable): index for index, variable in enumerate(model.weights)}
    found = {}
    for name, optimizer in optimizers_of(model):
        if optimizer.built:
            inner = getattr(optimizer, "inner_optimizer", optimizer)
            found[name] = [places[id(v)] for v in getattr(inner, "_trainable_variables", ()) if id(v) in places]
    return found


def seeds_and_extras(model):
    """States of the layers' generators, and variables of TensorFlow's own that hang on a layer."""
    seeds, extras = [], []
    for layer in model._flatten_layers():
        seeds += [generator.state for generator in getattr(layer, "_seed_generators", ())]
        for value in list(vars(layer).values()):
            if isinstance(value, tf().Variable):
                extras.append(value)
            elif isinstance(value, tf().random.Generator):
                extras.append(value.state)
    return seeds, extras


def named(groups):
    """(name in the file, variable), each once. The number makes names differ where layers' names do not."""
    seen, found = set(), []
    for group, members in groups.items():
        for variable in members:
            if id(variable) not in seen:
                seen.add(id(variable))
                path = getattr(variable, "path", None) or getattr(variable, "name", "")
                found.append((f"{group}/{len(found):05d}/{path}", variable))
    return found


class Beside:
    """Arrays that go with the variables: `keep` is what `packing` wants."""

    def __init__(self):
        self.arrays = {}

    def keep(self, array):
        name = f"{TENSOR}{len(self.arrays):05d}"
        self.arrays[name] = array
        return name


class NotFinite(Exception):
    """Weights or an optimizer that no training could go on from."""


def _is_trained(name, variable):
    """Whether it must be finite: a mask that holds -inf may be what it is."""
    return name.startswith("optimizer/") or (name.startswith("model/") and getattr(variable, "trainable", False))


class Snapshot:
    """A state that is on its way to the disk."""

    def __init__(self, manifest, named, beside, iterators, buffered=0):
        """`buffered`: bytes in the states of the iterators, which are copies already."""
        self.manifest = manifest
        self._beside = list(beside.arrays.items())
        self._iterators = iterators
        kept = [(name, variable) for name, variable in named if variables.holdable(variable.dtype)]
        self.left_out = [name for name, variable in named if not variables.holdable(variable.dtype)]
        self._slots = [variables.slot_of(name, variable) for name, variable in kept]
        self._trained = [_is_trained(name, variable) for name, variable in kept]
        self._held = [variable for _, variable in kept]  # variables, or their values once they were copied
        self.bytes = sum(slot.bytes for slot in self._slots) + buffered

    def fits(self, limit):
        """Whether there is room for a second copy of everything beside the steps to come."""
        return not limit or most() + self.bytes < MARGIN * limit

    def lies_beside(self, files):
        """Files beside the generations that belong to it: {name: checksum}."""
        self.manifest = replace(self.manifest, beside=files)

    def copy(self):
        """The values now. Where it is not called they are read when they are written: then nothing may train."""
        self._held = [variables.read(variable) for variable in self._held]

    def write(self, draft, process=""):
        """Everything, and the manifest last; returns that."""
        slots = list(self._slots)
        for name, array in self._beside:
            slots.append(variables.slot_of(name, array))
        for role, state in self._iterators.items():
            position.write(state, os.path.join(str(draft.path), role))
        self._iterators = {}
        draft.write(states.STATE, lambda file: safetensors.write(file, slots, self._contents()))
        draft.adopt()
        return draft.complete(self.manifest, process)

    def _contents(self):
        for index, held in enumerate(self._held):
            value = variables.read(held) if hasattr(held, "assign") else held
            self._held[index] = None  # once it is written its memory is free
            if self._trained[index] and not variables.is_finite(value):
                raise NotFinite(f"{self._slots[index].name} is not finite")
            yield variables.content(value)
        for _, array in self._beside:
            yield variables.content(array)


def has_room(size, limit):
    """Whether a buffer of that size could be copied and written now, between two steps (limit 0: there is none)."""
    return not limit or anonymous() + position.COPIES * size < BETWEEN * limit


class Reader:
    """A generation's tensors, going back where they came from."""

    def __init__(self, generation):
        self._file = safetensors.Reader(generation.open_file(states.STATE))
        self._names = [name for name in self._file.slots if not name.startswith(TENSOR)]

    def misfit(self, wanted):
        """Why these variables are not those that were saved, in words; None where they are."""
        if len(wanted) != len(self._names):
            return f"{len(wanted)} variables where {len(self._names)} were saved"
        for (name, variable), saved in zip(wanted, self._names):
            slot, other = variables.slot_of(name, variable), self._file.slots[saved]
            if (slot.dtype, slot.shape) != (other.dtype, other.shape):
                return f"{slot.name}: {slot.shape} {slot.dtype} where {other.shape} {other.dtype} was saved"
        return None

    def put(self, wanted):
        """Each to its own: by group and order. What is of another shape (a resume that was forced) stays as it is."""
        saved, now = _by_group(self._names), _by_group(name for name, _ in wanted)
        pairs = {new: old for group, names in now.items() for new, old in zip(names, saved.get(group, ()))}
        for name, variable in wanted:
            slot = self._file.slots.get(pairs.get(name, ""))
            if slot is not None and variables.slot_of(slot.name, variable) == slot:
                variable.assign(variables.array_of(slot, self._file.read(slot.name)))

    def fetch(self, name):
        return variables.array_of(self._file.slots[name], self._file.read(name)).copy()

    def close(self):
        self._file.close()


def _by_group(names):
    groups = {}
    for name in names:
        groups.setdefault(name.split("/")[0], []).append(name)
    return groups
