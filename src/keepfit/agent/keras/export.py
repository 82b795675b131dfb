"""A saved state put back into its model, and saved as Keras does."""

import json
import sys
from importlib import import_module

from ...blackbox import safetensors, states
from ..tensorflow import variables


def main(generation, target):
    """Exit status; the last line of stderr says why it was not possible. The model's configuration comes from stdin."""
    try:
        _export(sys.stdin.read(), generation, target)
    except Exception as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", file=sys.stderr)
        return 1
    return 0


def _export(config, generation, target):
    keras = import_module("keras")
    model = keras.saving.deserialize_keras_object(json.loads(config))
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    reader = safetensors.Reader(states.Generation.at(generation).open_file(states.STATE))
    _put(reader, "model/", model.weights)
    if optimizer is not None:
        _put(reader, "optimizer/", optimizer.variables)
    model.save(target)


def _put(reader, group, members):
    names = [name for name in reader.slots if name.startswith(group)]
    if len(names) != len(members):
        raise ValueError(f"{len(members)} variables where {len(names)} were saved ({group.rstrip('/')})")
    for name, variable in zip(names, members):
        variable.assign(variables.array_of(reader.slots[name], reader.read(name)))
