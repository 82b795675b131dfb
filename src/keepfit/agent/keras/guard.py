"""The guard of a model's steps: before the first one it is decided whether its batch runs whole or in parts.

The agent reports facts (an estimate from the traced graph, two measured micro-batches), the supervisor
chooses. Where the batch fits, Keras' own function is put back and nothing of ours remains in the step.
Measuring changes neither weights nor seeds nor metrics nor statistics, and the batch it looked at is
handed on to the real step.
"""

import contextlib
import os
import time
import weakref
from importlib import import_module

from ..hooks import wrap
from ..peak import Peak, give_back
from ..tensorflow import device, parts
from ..tensorflow.parts import tf
from . import micro, terms
from .decision import Decision
from .held import HeldBatches, HeldList, NothingHeld
from .retry import Retrying

STEPS = ("train", "test", "predict")


def install(source, heart, missing):
    guard = Guard(source, heart)
    trainer = import_module(source + "backend.tensorflow.trainer").TensorFlowTrainer
    terms.install(source)
    for step in STEPS:
        wrap(trainer, f"{step}_step", guard.stepping(step), missing)
        wrap(trainer, f"make_{step}_function", guard.making(step), missing)
    wrap(import_module(source + "trainers.trainer").Trainer, "compile", guard.compiling, missing, entered=True)
    optimizer = import_module(source + "optimizers.base_optimizer").BaseOptimizer
    wrap(optimizer, "apply_gradients", guard.applying, missing, entered=True)
    heart.at_ease.append(guard.heed)
    return guard


class Guard:
    """What is known of every model of this process."""

    def __init__(self, source, heart):
        self.source = source
        self.heart = heart
        self.counsel = heart.counsel
        self._splits = weakref.WeakKeyDictionary()  # model -> Split
        self._decided = weakref.WeakKeyDictionary()  # model -> {step: rows that were decided on}
        self.makers = {}  # Keras' own make_train_function and its kin, by step
        self.gradients = weakref.WeakKeyDictionary()  # model -> kinds of gradients, by id of their variable
        self.resumed = weakref.WeakKeyDictionary()  # model -> rows computed at once before it was cut off
        self._training = None  # weak reference to the model that trains now
        self._heeded = 0
        self._whole = False  # steps are run as Keras has them, to be looked at
        self.gate = None  # of the numbers, where there is one
        self.keeper = None  # of states, where they are kept
        self.lean = "KEEPFIT_LEAN" in os.environ  # an attempt after a death for want of memory
        self.kinds = None  # while a graph is traced to learn from it: the kinds of its gradients

    # --- hooks --------------------------------------------------------------------------------------

    def stepping(self, step):
        """Around `train_step` and its kin, which run while a function is traced (or at every eager step)."""

        def around(original):
            def split_or_whole(model, data):
                split = self.split_of(model, step) if not self._whole else None
                return original(model, data) if split is None else getattr(micro, f"{step}_step")(model, split, data)

            return split_or_whole

        return around

    def making(self, step):
        """Around `make_train_function` and its kin."""
        name = f"{step}_function"

        def around(original):
            def make(model, force=False):
                if getattr(model, name, None) is not None and not force:
                    self._look_again(model, step)
                    return getattr(model, name)
                split = self.split_of(model, step)
                if split is None:
                    result = original(model, force=force)
                else:
                    jit = model.jit_compile
                    split.compiled_parts = bool(jit) and not model.run_eagerly
                    model.jit_compile = False  # each part is compiled, not the loop around them
                    try:
                        result = original(model, force=force)
                    finally:
                        model.jit_compile = jit
                self._watch(model, step)
                return result

            self.makers[step] = original
            return make

        return around

    def applying(self, original):
        """Around `apply_gradients`: while a graph is learnt from, what kinds of gradients it has."""

        def apply_gradients(optimizer, grads_and_vars):
            if self.kinds is not None:
                grads_and_vars = list(grads_and_vars)
                self.kinds[:] = [(id(variable), parts.kind_of(gradient)) for gradient, variable in grads_and_vars]
            return original(optimizer, grads_and_vars)

        return apply_gradients

    def heed(self):
        """Now and then, between two steps: does the supervisor want a smaller micro-batch?"""
        wish = self.counsel.wish
        if not wish or wish == self._heeded:
            return
        self._heeded = wish
        model = self._training() if self._training is not None else None
        if model is None:
            return
        split = self.split_of(model, "train")
        if split is not None:
            split.micro.assign(wish)
            self.counsel.ask("heeded", step="train", rows=wish)
        else:
            model.train_function = FirstCall(self, model, "train", model.train_function, forced=wish)

    @contextlib.contextmanager
    def whole(self):
        self._whole = True
        try:
            yield
        finally:
            self._whole = False

    # --- models -------------------------------------------------------------------------------------

    def split_of(self, model, step):
        split = self._splits.get(model)
        return split if split is not None and step in split.examined else None

    def _watch(self, model, step):
        if step == "train":
            self._training = weakref.ref(model)
        if not self.heart.alive or not self.counsel.limit or self._settled(model, step):
            return
        name = f"{step}_function"
        trained = self.split_of(model, "train")  # what is cheaper than training is split as it is
        forced = int(trained.micro.numpy()) if trained is not None and step != "train" else 0
        setattr(model, name, FirstCall(self, model, step, getattr(model, name), forced))

    def _look_again(self, model, step):
        """`fit` once more: with a larger batch than was decided on, or after another model trained."""
        name = f"{step}_function"
        if step == "train":
            self._training = weakref.ref(model)
        known = self._decided.get(model, {}).get(step)
        function = getattr(model, name)
        if known is not None and self.heart.batch_size > known and not isinstance(function, FirstCall):
            self._decided[model].pop(step)
            if self.split_of(model, step) is None and self.counsel.limit:
                setattr(model, name, FirstCall(self, model, step, function))

    def _settled(self, model, step):
        """A step of a split model is split; where the training fits whole, so does a validation no larger."""
        if self.split_of(model, step) is not None:
            return True
        trained = self._decided.get(model, {}).get("train")
        return step == "test" and trained is not None and self.heart.batch_size <= trained

    def saving(self):
        """Bytes to be left free for states: what steps have used is free between them, but for a pool."""
        return self.keeper.saving() if self.keeper is not None and device.pools() else 0

    def decided(self, model, step, rows):
        self._decided.setdefault(model, {})[step] = rows

    def split_now(self, model, function, held, rows):
        """A training function that runs in parts from now on; the one given where that cannot be."""
        return Decision(self, model, "train", function, held).forced(rows)

    def begin_split(self, model, step, examined, kinds):
        split = self._splits.get(model)
        if split is None:
            split = self._splits[model] = micro.Split(model, self.source, self.gate)
        if step == "train":
            split.gradient_kinds = kinds
        split.examined[step] = examined
        if step == "train":  # the others are made anew, and split with it
            for other in ("test", "predict"):
                setattr(model, f"{other}_function", None)
        return split

    def compiling(self, original):
        """Around `compile`: another loss, other weights to train; nothing that was found out holds any more."""

        def compile(model, *args, **kwargs):
            for known in (self._splits, self._decided, self.gradients):
                known.pop(model, None)
            return original(model, *args, **kwargs)

        return compile

    def end_split(self, model, step):
        split = self._splits.get(model)
        if split is not None:
            split.examined.pop(step, None)
            if not split.examined:
                del self._splits[model]


class FirstCall:
    """Stands where the model's compiled function will stand, until the first batch has told how to run it."""

    def __init__(self, guard, model, step, function, forced=0):
        self._guard = guard
        self._model = weakref.ref(model)
        self._step = step
        self._function = function
        self._forced = forced
        self._final = None  # the function decided on

    def __call__(self, argument):
        if self._final is not None:  # the user has a wrapper of his own around us, and goes on calling
            return self._final(argument)
        model, step = self._model(), self._step
        rows = self._guard.heart.batch_size if step == "train" else 0
        steps = model.steps_per_execution
        if self._guard.heart.planner is not None and step == "train":  # which looks at the batch itself
            self._guard.heart.planner.take(model, self._function, HeldBatches(argument, steps))
        held = HeldList(argument) if step == "predict" else HeldBatches(argument, steps, rows)
        decision = Decision(self._guard, model, step, self._function, held)
        watched = self._guard.gate.watched(model, step) if self._guard.gate is not None else None
        counted = watched.begin_trials() if watched is not None else None
        self._function = None  # so that the decision can let it go
        name = f"{step}_function"
        stands = getattr(model, name)
        try:
            function = decision.forced(self._forced) if self._forced else decision.take()
        except Exception as error:  # whatever fails in keepfit, the training goes on as Keras would have it
            self._guard.end_split(model, step)
            if not isinstance(error, NothingHeld):
                self._guard.heart.failed(f"guard.{step}", error)
            function = decision.plain()
        if watched is not None:
            watched.end_trials(counted)
        if step == "train" and device.accelerated():
            function = Retrying(self._guard, model, function)
        self._final = function
        setattr(model, name, function if stands is self else stands)
        if device.accelerated() or self._guard.split_of(model, step) is None:
            result = function(held.handed_on())
        else:
            result = self._first_split_step(model, function, held)
        held.surface()
        return result

    def _first_split_step(self, model, function, held):
        """The first real step is also the proof of the choice."""
        give_back()
        peak, began = Peak(), time.monotonic()
        result = function(held.handed_on())
        heart = self._guard.heart
        heart.slowest = max(heart.slowest, time.monotonic() - began)  # many parts take their time: no hang
        split = self._guard.split_of(model, self._step)
        if self._step == "train" and split is not None and not self._forced:
            tf().nest.map_structure(lambda leaf: getattr(leaf, "numpy", lambda: None)(), result)
            rows = int(split.micro.numpy())
            seconds = (time.monotonic() - began) * rows / max(1, held.rows() * held.count)
            answer = self._guard.counsel.ask("verified", step=self._step, rows=rows, peak=peak.read(), seconds=seconds)
            if answer and answer.get("rows"):
                split.micro.assign(int(answer["rows"]))
        return result
