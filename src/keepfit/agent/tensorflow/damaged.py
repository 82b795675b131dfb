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

    wrap(datasets, "map", mapping, missing)


def is_damage(error):
    errors = tf().errors
    return isinstance(error, (errors.DataLossError, errors.InvalidArgumentError, errors.UnknownError))


def find_file(dataset):
    """The first file name whose `map` fails, where the pipeline maps file names; None where none is found in time."""
    until = time.monotonic() + SECONDS
    for stage in stages(dataset):
        function = getattr(getattr(stage, "_map_func", None), "function", None)
        inputs = stage._inputs() if function is not None else ()
        if len(inputs) == 1 and _has_name(inputs[0].element_spec):
            return _failing(function, inputs[0], until)
    return None


def _has_name(spec):
    leaves = tf().nest.flatten(spec)
    return any(getattr(leaf, "dtype", None) == tf().string and leaf.shape.rank == 0 for leaf in leaves)


def _failing(function, names, until):
    for element in names:
        if time.monotonic() > until:
            return None
        leaves = tf().nest.flatten(element)
        try:
            function(*leaves)
        except tf().errors.OpError:
            return next(leaf.numpy().decode("utf-8", "replace") for leaf in leaves if leaf.dtype == tf().string)
    return None
