"""The data of a training: how large its batches are, and what it holds in memory on its way to the step."""

import itertools
import time

from ..tensorflow import buffers, parts
from ..tensorflow.parts import np, tf

SECONDS = 10.0  # to look for the largest batch of data whose shapes differ


def worst(held):
    """Where shapes differ from batch to batch: the largest one takes the first one's place.

    {batches, largest, mean, padding}: how many were looked at, bytes, and the share of zeros in sequences of whole
    numbers whose length differs, which is what those are padded with. None where all batches are alike.
    """
    spec = tf().nest.flatten(held.spec())
    if not all(isinstance(leaf, tf().TensorSpec) for leaf in spec) or not any(map(_differs, spec)):
        return None
    until = time.monotonic() + SECONDS
    largest, sizes, zeros, words = held.first(), [], 0, 0
    for batch in itertools.chain([largest], held.more()):
        size = sum(map(_bytes, parts.leaves(batch)))
        if size > max(sizes, default=0):
            largest = batch
        sizes.append(size)
        for leaf, told in zip(tf().nest.flatten(batch), spec):
            if leaf.dtype.is_integer and leaf.shape.rank == 2 and _differs(told):
                zeros += int(tf().math.count_nonzero(leaf == 0))
                words += int(tf().size(leaf))
        if time.monotonic() > until:
            break
    held.instead(largest)
    mean = sum(sizes) // len(sizes)
    return {"batches": len(sizes), "largest": max(sizes), "mean": mean, "padding": zeros / words if words else 0.0}


def _differs(spec):
    return spec.shape.rank is not None and None in spec.shape.as_list()[1:]


def of(owner):
    """(what the stages of the input hold, bytes of the arrays it starts from)"""
    adapter, arrays = adapted(owner)
    return held_by_arrays(arrays) if arrays is not None else held_by(getattr(adapter, "_dataset", None))


def adapted(owner):
    """(Keras' adapter of the data, the arrays that it cuts into batches); None: neither, or none."""
    adapter = getattr(owner, "data_adapter", None)
    return adapter, getattr(adapter, "_inputs", None)


def samples(owner, rows):
    """Rows of an epoch's data, by whole batches where they are not told one by one; None: nobody knows."""
    adapter, arrays = adapted(owner)
    if arrays is not None:
        return int(parts.leaves(arrays)[0].shape[0])
    batches = getattr(adapter, "num_batches", None)
    return int(batches) * rows if batches else None


def in_arrays(given):
    """Bytes of the arrays among the arguments of a `fit`, which makes tensors of them."""
    found = parts.leaves([given.get(name) for name in ("x", "y", "sample_weight", "validation_data")])
    return held_by_arrays([leaf for leaf in found if isinstance(leaf, np().ndarray)])[1]


def held_by_arrays(arrays):
    """Each array once, also where it is both what is given and what is wanted; files mapped to memory not at all."""
    found = {_address(leaf): leaf for leaf in parts.leaves(arrays) if not isinstance(leaf, np().memmap)}
    return [], sum(map(_bytes, found.values()))


def _address(leaf):
    return getattr(leaf, "__array_interface__", {}).get("data", (id(leaf),))[0]


def held_by(dataset):
    return (buffers.of(dataset), buffers.preloaded(dataset)) if hasattr(dataset, "_inputs") else ([], 0)


def _bytes(leaf):
    """Of an array, a tensor (ragged and sparse ones too) or a table."""
    if hasattr(leaf, "memory_usage"):
        return int(np().sum(leaf.memory_usage(index=False)))
    if isinstance(leaf, tf().RaggedTensor):
        return _bytes(leaf.flat_values)
    if isinstance(leaf, tf().SparseTensor):
        return _bytes(leaf.values) + _bytes(leaf.indices)
    size = getattr(leaf, "nbytes", None)
    return int(size) if size is not None else int(np().prod(leaf.shape)) * leaf.dtype.size
