"""TensorFlow below Keras: tracing, and the steps of a hand-written training loop.

An unmodified loop shows itself by its dataset iterator (every step, compiled or not) and by its
`GradientTape` (when eager, and once while it is traced): an iterator in whose body a tape was opened
is the training one.
"""

import json
import os
import time
import weakref
from importlib import import_module

from ..hooks import wrap
from . import damaged, pipeline, seeds, source, tracing


def install(tensorflow, heart):
    """Returns the names of what this version of TensorFlow does not have."""
    missing = []
    loop = HandWrittenLoop(heart)
    heart.loop = loop
    tracing = import_module("tensorflow.python.eager.polymorphic_function.tracing_compilation")
    wrap(tracing, "_create_concrete_function", _tracing(heart), missing, entered=True)
    iterator = import_module("tensorflow.python.data.ops.iterator_ops").OwnedIterator
    wrap(iterator, "__init__", _born(heart, loop), missing, entered=True)
    wrap(iterator, "__next__", _next(heart, loop), missing, entered=True)
    wrap(tensorflow.GradientTape, "__enter__", _tape(heart, loop), missing, entered=True)
    if json.loads(os.environ.get("KEEPFIT_NUMBERS") or "{}").get("bad_sample") == "skip":
        damaged.leave_out(missing)
    if heart.seed is not None:
        seeds.install(heart.seed, missing)
    return missing


def _tracing(heart):
    def kept(function):
        if heart.graphs is not None:
            heart.graphs[function.name.decode()] = function.graph
        return function

    def around(original):
        def trace(*args, **kwargs):
            if heart.phase == "trace":  # an inner function of one that is being traced
                return kept(original(*args, **kwargs))
            before = heart.enter("trace")
            began = time.monotonic()
            if heart.planner is not None and not heart.in_fit:
                with tracing.collected(heart) as graphs:
                    function = kept(original(*args, **kwargs))
                heart.planner.traced(function.graph, graphs)
                return function
            try:
                return kept(original(*args, **kwargs))
            finally:
                heart.traced(time.monotonic() - began)
                if heart.phase == "trace":  # a tape seen on the way has made it a training
                    heart.leave(before)

        return trace

    return around


def _born(heart, loop):
    def around(original):
        def __init__(self, dataset=None, *args, **kwargs):
            original(self, pipeline.bounded(dataset, heart), *args, **kwargs)
            if dataset is not None:
                loop.born(self, dataset)

        return __init__

    return around


def _next(heart, loop):
    def around(original):
        def __next__(self):
            if heart.in_fit or not heart.alive:
                return original(self)
            loop.waits(self)
            try:
                element = original(self)
            except BaseException:
                loop.over(self)
                raise
            loop.step(self, element)
            return element

        return __next__

    return around


def _tape(heart, loop):
    def around(original):
        def __enter__(self):
            if not heart.in_fit:
                loop.tape_opened()
            return original(self)

        return __enter__

    return around


class HandWrittenLoop:
    """Which iterator is being trained on, and how far it is."""

    def __init__(self, heart):
        self._heart = heart
        self._datasets = {}  # id of an iterator -> weak reference to its dataset
        self._steps = {}  # id of an iterator -> elements taken
        self._training = None  # weak reference to the dataset trained on
        self._current = None  # id of the iterator in use
        self._epoch = -1
        self._described = False
        self.budget = None  # once `keepfit.accumulate` is used in it

    def born(self, iterator, dataset):
        key = id(iterator)
        self._datasets[key] = weakref.ref(dataset)
        self._steps[key] = 0
        weakref.finalize(iterator, self._gone, key).atexit = False

    def _gone(self, key):
        self._datasets.pop(key, None)
        self._steps.pop(key, None)
        if self._current == key:
            self._current = None
            self._heart.between()

    def waits(self, iterator):
        """The training iterator is asked for its next element."""
        if self._current == id(iterator) and self._is_training(self._current):
            self._heart.doing("stepping")

    def over(self, iterator):
        """The dataset ended (or failed): the loop's body is left."""
        if self._current == id(iterator):
            self._current = None
            self._heart.step_ended(0)
            self._heart.between()

    def _is_training(self, key):
        """Known by a tape, or a fresh dataset in place of one that is gone (a new one every epoch)."""
        if self._training is None:
            return False
        known = self._training()
        return known is None or self._datasets.get(key, lambda: None)() is known

    def step(self, iterator, element):
        key = id(iterator)
        taken = self._steps.get(key, 0)
        self._steps[key] = taken + 1
        heart = self._heart
        if self._current is not None and self._current == key:
            heart.step_ended()
        self._current = key
        if self._training is None:
            heart.batch_size = _first_dimension(element) or heart.batch_size
            return  # not known yet whether this is a training loop: the tape will tell
        if not self._is_training(key):
            heart.enter("validation")
            return
        if heart.planner is not None:
            heart.planner.second_step()
        if taken == 0:
            self._epoch += 1
            self._training = self._datasets[key]
        heart.batch_size = _first_dimension(element) or heart.batch_size
        self._train(taken)
        if self.budget is not None:
            self.budget.turn(heart.batch_size)
        heart.glance()

    def _train(self, step):
        heart = self._heart
        if not self._described:
            self._described = True
            source.describe_loop(heart)
        heart.enter("train")
        heart.epoch = self._epoch
        # The body of the loop is the user's, and may end without our seeing it: silence there is only suspect.
        heart.doing("looping")
        heart.step_began(step)

    def tape_opened(self):
        key = self._current
        if key is None or self._is_training(key) or key not in self._datasets:
            return
        self._training = self._datasets[key]
        self._epoch += 1
        self._train(self._steps[key] - 1)

    def applied(self):
        """An eager `apply_gradients` outside any dataset: the only step such a loop shows."""
        if self._current is None:
            self._heart.step_ended()
            self._train(self._heart.steps)
            self._heart.glance()


def _first_dimension(element):
    while isinstance(element, (tuple, list, dict)):
        values = list(element.values()) if isinstance(element, dict) else element
        if not values:
            return 0
        element = values[0]
    shape = getattr(element, "shape", None)
    try:
        return int(shape[0]) if shape is not None and len(shape) else 0
    except (TypeError, ValueError):
        return 0
