"""Files that cannot be read: left out where that is wanted, named where one ended the training."""

import time
from importlib import import_module

from ..hooks import wrap
from .buffers import stages
from .parts import tf

SECONDS = 20.0  # to look for the file that ended a training


def leave_out(missing):
    """From now on what a `map` fails on is left out, sample by sample; TensorFlow logs a line for each."""
    datasets = import_module("tensorflow.python.data.ops.dataset_ops").DatasetV2

    def mapping(original):
        def map(self, *args, **kwargs):
            return original(self, *args, **kwargs).ignore_errors(log_warning=True)

        return map

    wrap(datasets, "map", mapping, missing, entered=True)


def left_out(dataset, ended):
    """{files, checked, of}: the named files that a `map` fails on, looked through beside the training.

    Only where nothing is disturbed by it: names that the pipeline holds in memory, and functions without a state.
    None where that is not so; then TensorFlow's log lines tell. `ended()`: the program is about to.
    """
    until = time.monotonic() + SECONDS
    mapped = next(filter(_maps_names, stages(dataset)), None)
    *between, root = stages(mapped._inputs()[0]) if mapped is not None else (None,)
    if getattr(root, "_tensors", None) is None or not all(map(_gives_all, between)):
        return None
    function = mapped._map_func.function
    if any(operation.op_def.is_stateful for operation in function.graph.get_operations()):
        return None
    tensors = tf().nest.flatten(root._tensors)
    count, files, checked = int(tensors[0].shape[0]), [], 0
    for checked in range(1, count + 1):
        name = _name_if_failing(function, [tensor[checked - 1] for tensor in tensors])
        if name is not None:
            files.append(name)
        if ended() or time.monotonic() > until:
            break
    return {"files": files, "checked": checked, "of": count}


def _gives_all(stage):
    """Whether a stage gives everything that comes to it, in whatever order."""
    return any(word in type(stage).__name__ for word in ("Shuffle", "Repeat", "Cache", "Prefetch", "Options"))


def is_damage(error):
    errors = tf().errors
    return isinstance(error, (errors.DataLossError, errors.InvalidArgumentError, errors.UnknownError))


def find_file(dataset):
    """The first file name whose `map` fails, where the pipeline maps file names; None where none is found in time."""
    until = time.monotonic() + SECONDS
    for stage in filter(_maps_names, stages(dataset)):
        for element in stage._inputs()[0]:
            name = _name_if_failing(stage._map_func.function, tf().nest.flatten(element))
            if name is not None or time.monotonic() > until:
                return name
        return None
    return None


def _maps_names(stage):
    if getattr(getattr(stage, "_map_func", None), "function", None) is None or len(stage._inputs()) != 1:
        return False
    leaves = tf().nest.flatten(stage._inputs()[0].element_spec)
    return any(getattr(leaf, "dtype", None) == tf().string and leaf.shape.rank == 0 for leaf in leaves)


def _name_if_failing(function, leaves):
    try:
        function(*leaves)
    except tf().errors.OpError:
        return next(leaf.numpy().decode("utf-8", "replace") for leaf in leaves if leaf.dtype == tf().string)
    return None
