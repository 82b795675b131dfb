"""The position in a tf.data pipeline: saved and restored (*jump*), or reached again from its start (*replay*).

A saved iterator holds buffers, shuffles and the seeds of epochs to come. Python that runs inside the pipeline
(generators, `py_function`) has no state that could be saved; then the batches are drawn again, in order.
"""

import os
from operator import attrgetter

from . import buffers
from .parts import tf

JUMP, REPLAY = "jump", "replay"
_library = attrgetter("library")  # of a graph: the functions that its operations call
_IGNORE = 1  # ExternalStatePolicy: operations that keep a state of their own do not stand in the way
_NAME = "iterator"
COPIES = 2  # of what a pipeline holds, while its position is saved: its own, and the one that is written
START = "-start"  # beside the file of an iterator's state: that of the state its epoch began with
# Operations whose state is not part of the iterator's: Python, and generators that the script holds.
_OUTSIDE = ("PyFunc", "EagerPyFunc", "Stateful", "RngReadAndSkip")


class NoRoom(Exception):
    """In the memory budget, for a copy of what a pipeline holds."""


class Saver:
    """How the position of one pipeline is kept."""

    def __init__(self, dataset, ordered_once=False):
        """`ordered_once`: the order is drawn when an epoch begins, and the iterator holds it."""
        may_jump = ordered_once or (is_self_contained(dataset) and not _caches_its_order(dataset))
        self.how = JUMP if may_jump else REPLAY
        self._must_jump = ordered_once
        self.bytes = buffers.kept(dataset) if self.how == JUMP else 0
        self.start = None  # state of the epoch's iterator before its first element, where it is needed
        self._reshuffles = self.how == JUMP and _reshuffles(dataset)

    @property
    def cannot_do_without(self):
        """Bytes that must be free for the position to be saved: where the batches cannot be drawn again."""
        return COPIES * self.bytes if self._must_jump else 0

    def begin(self, iterator):
        """An epoch's iterator, before anything was drawn from it: there is nothing in its buffers yet."""
        self.start = self.take(iterator) if self._reshuffles and self.how == JUMP else None

    def take(self, iterator, room=None):
        """The iterator's state as a tensor, or None where the batches have to be drawn again.

        `room(bytes)`: whether so much memory is free. Full buffers are copied, and some do not fit twice; NoRoom where
        the batches cannot be drawn again either.
        """
        if self.how == JUMP and self.bytes and room is not None and not room(self.bytes):
            if self._must_jump:
                raise NoRoom("the memory budget has no room for the position in the data")
            self.how, self.bytes = REPLAY, 0
        if self.how == JUMP:
            try:
                return tf().raw_ops.SerializeIterator(
                    resource_handle=iterator._iterator_resource, external_state_policy=_IGNORE
                )
            except Exception:  # of several kinds, by the stage that cannot
                self.how, self.bytes = REPLAY, 0
        return None


def _reshuffles(dataset):
    """Whether every epoch draws an order of its own, from seeds that go on.

    They are part of the shuffle's state. But once a shuffle has given its last element, which is some batches before
    the epoch's end, it is gone from the iterator's state, and with it the seeds of the epochs to come: those are in
    the state that the epoch began with. Not so where the shuffle begins again by itself (`repeat`): then it is never
    gone but at the very end.
    """
    kinds = [type(stage).__name__ for stage in buffers.stages(dataset)] if hasattr(dataset, "_inputs") else []
    return any("Shuffle" in kind for kind in kinds) and not any("Repeat" in kind for kind in kinds)


def _caches_its_order(dataset):
    """Whether a cache keeps the order of a shuffle, and no other shuffle comes behind it.

    Such an iterator draws the shuffle's seeds with its first element and not before, so that the state it begins with
    does not hold them; and once the cache is full that state holds all of it.
    """
    stages = list(buffers.stages(dataset)) if hasattr(dataset, "_inputs") else []
    shuffles = {id(stage) for stage in stages if "Shuffle" in type(stage).__name__}
    kept = {id(inner) for stage in stages if "Cache" in type(stage).__name__ for inner in buffers.stages(stage)}
    return bool(shuffles) and shuffles <= kept


def is_self_contained(dataset):
    """Whether a saved iterator is all there is to know.

    Python inside the pipeline is not in it, nor is a random operation that goes on from its seed. One without a
    seed is: any numbers are as good as those it would have drawn.
    """
    if not hasattr(dataset, "_inputs"):
        return False  # distributed over several devices
    for node in _operations(dataset):
        if node.op.startswith(_OUTSIDE):
            return False
        if "Random" in node.op and any(node.attr[name].i for name in ("seed", "seed2") if name in node.attr):
            return False
    return True


def _operations(dataset):
    """Every operation of every function in a pipeline."""
    for stage in buffers.stages(dataset):
        for function in stage._functions():
            graph = function.function.graph.as_graph_def()
            yield from graph.node
            for inner in _library(graph).function:
                yield from inner.node_def


def write(state, prefix):
    """TensorFlow's own files: PREFIX.index and PREFIX.data-…"""
    tf().raw_ops.SaveV2(prefix=prefix, tensor_names=[_NAME], shape_and_slices=[""], tensors=[state])


def load_start(prefix):
    """The state that the epoch had begun with; None where it was not needed."""
    return load(prefix + START) if os.path.exists(prefix + START + ".index") else None


def load(prefix):
    """What `write` has written; in memory, because the generation it belongs to may be gone when it is needed."""
    (state,) = tf().raw_ops.RestoreV2(prefix=prefix, tensor_names=[_NAME], shape_and_slices=[""], dtypes=[tf().variant])
    return state


def reseed(dataset, start):
    """The epochs to come are those that came after the one that began with this state."""
    if start is not None:
        restore(iter(dataset), start)


def restore(iterator, state):
    tf().raw_ops.DeserializeIterator(resource_handle=iterator._iterator_resource, serialized=state)
