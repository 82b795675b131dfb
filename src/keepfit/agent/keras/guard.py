"""The guard of a model's steps: before the first one it is decided whether its batch runs whole or in parts.

The agent reports facts (an estimate from the traced graph, two measured micro-batches), the supervisor
chooses. Where the batch fits, Keras' own function is put back and nothing of ours remains in the step.
Measuring changes neither weights nor seeds nor metrics nor statistics, and the batch it looked at is
handed on to the real step.
"""

import gc
import hashlib
import time
import weakref
from functools import wraps
from importlib import import_module

from ..peak import Peak, anonymous, give_back, keep_giving_back, stop_giving_back
from ..tensorflow import liveness, parts
from ..tensorflow.parts import tf
from . import examine, micro, terms
from .held import HeldBatches, HeldList, NothingHeld
from .retry import Retrying

STEPS = ("train", "test", "predict")


def install(source, heart, missing):
    guard = Guard(source, heart)
    trainer = import_module(source + "backend.tensorflow.trainer").TensorFlowTrainer
    terms.install(source)
    for step in STEPS:
        _wrap(trainer, f"{step}_step", guard.stepping(step), missing)
        _wrap(trainer, f"make_{step}_function", guard.making(step), missing)
    _wrap(import_module(source + "trainers.trainer").Trainer, "compile", guard.compiling, missing)
    optimizer = import_module(source + "optimizers.base_optimizer").BaseOptimizer
    _wrap(optimizer, "apply_gradients", guard.applying, missing)
    heart.at_ease.append(guard.heed)
    return guard


def _wrap(owner, name, around, missing):
    original = vars(owner).get(name)
    if original is None:
        missing.append(f"{owner.__name__}.{name}")
        return
    setattr(owner, name, wraps(original)(around(original)))


def accelerated():
    """Whether steps run on a device whose memory is not the host's."""
    return bool(tf().config.list_logical_devices("GPU"))


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
        self._training = None  # weak reference to the model that trains now
        self._heeded = 0
        self.kinds = None  # while a graph is traced to learn from it: the kinds of its gradients

    # --- hooks --------------------------------------------------------------------------------------

    def stepping(self, step):
        """Around `train_step` and its kin, which run while a function is traced (or at every eager step)."""

        def around(original):
            def split_or_whole(model, data):
                split = self.split_of(model, step)
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
        """A step of a split model is split; one whose training fits whole fits too."""
        if self.split_of(model, step) is not None:
            return True
        trained = self._decided.get(model, {}).get("train")
        return step != "train" and trained is not None and self.heart.batch_size <= trained

    def decided(self, model, step, rows):
        self._decided.setdefault(model, {})[step] = rows

    def split_now(self, model, function, held, rows):
        """A training function that runs in parts from now on; the one given where that cannot be."""
        return Decision(self, model, "train", function, held).forced(rows)

    def begin_split(self, model, step, examined, kinds):
        split = self._splits.get(model)
        if split is None:
            split = self._splits[model] = micro.Split(model, self.source)
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
        held = HeldList(argument) if step == "predict" else HeldBatches(argument, steps, rows)
        decision = Decision(self._guard, model, step, self._function, held)
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
        if step == "train" and accelerated():
            function = Retrying(self._guard, model, function)
        self._final = function
        setattr(model, name, function if stands is self else stands)
        if accelerated() or self._guard.split_of(model, step) is None:
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


class Decision:
    """One question to the supervisor, and what it takes to answer it."""

    def __init__(self, guard, model, step, function, held):
        self._guard, self._model, self._step = guard, model, step
        self._function, self._held = function, held
        self._kinds = None
        self._examined = None
        self._warm = False

    def take(self):
        """The function to go on with."""
        guard, model, step = self._guard, self._model, self._step
        if accelerated():
            return self._on_a_device()
        estimate = self._estimate()
        rows = self._held.rows()
        answer = guard.counsel.ask(
            "batch",
            step=step,
            rows=rows,
            key=fingerprint(model, step, self._held, guard.source),
            estimate=estimate,
            in_use=anonymous(),
            model=self._sizes(),
        )
        function = None
        while answer is not None and answer.get("do") in ("try", "split"):
            if self._examined is None:
                if estimate is not None and anonymous() + estimate["whole"] > guard.counsel.limit:
                    self._let_go()
                if not self._can_split():
                    break
                function = self._split_function()
            wanted = int(answer["rows"])
            if answer["do"] == "split":
                split = guard.split_of(model, step)
                split.micro.assign(wanted)
                guard.counsel.ask("splitting", step=step, rows=wanted, notes=self._examined.notes)
                return function
            answer = guard.counsel.ask("tried", step=step, **self._trial(function, wanted))
        guard.end_split(model, step)
        guard.decided(model, step, rows)
        if function is not None:
            stop_giving_back()
        return self.plain()

    def _on_a_device(self):
        """The device's memory is its own affair: nothing is decided before it runs out.

        But a step that XLA does not compile may apply some gradients before it fails on others. Its parts
        (one, for now) are summed first and applied last, so that it can be tried again.
        """
        guard, model, step = self._guard, self._model, self._step
        facts = {"key": "", "in_use": anonymous(), "model": self._sizes(), "device": "gpu"}
        guard.counsel.ask("batch", step=step, rows=self._held.rows(), **facts)
        if step != "train" or model.jit_compile or model.run_eagerly:
            return self._function
        return self.forced(self._held.rows())

    def forced(self, rows):
        """Between two steps the supervisor wants parts, whatever was decided before."""
        guard, model, step = self._guard, self._model, self._step
        if step == "train":
            self._estimate()
        if not self._can_split():
            return self._function
        function = self._split_function()
        guard.split_of(model, step).micro.assign(rows)
        guard.counsel.ask("splitting", step=step, rows=rows, notes=self._examined.notes)
        return function

    def plain(self):
        """Keras' own function, made once more where it was let go."""
        if self._function is None:
            self._guard.makers[self._step](self._model, force=True)
            self._function = getattr(self._model, f"{self._step}_function")
        return self._function

    def _let_go(self):
        """The graph of the whole batch, which will not be run: tens of MiB for a large model."""
        self._function = None
        setattr(self._model, f"{self._step}_function", None)
        gc.collect()
        give_back()

    def _can_split(self):
        """Look at the model with a few rows of the batch; what speaks against splitting is reported."""
        model, step = self._model, self._step
        if model.run_eagerly:
            model._symbolic_build(data_batch=self._held.first())  # nothing was traced that would have built it
        with Unchanged(model):
            self._examined = examine.examine(model, self._held.first(), step, self._guard.source)
        if not self._examined.refusal:
            return True
        facts = {"kind": self._examined.refusal_kind, "why": self._examined.refusal}
        self._guard.counsel.ask("refused", step=step, rows=self._held.rows(), **facts)
        return False

    def _estimate(self):
        """What the graph that Keras traces anyway says of the step's need; None where there is no graph."""
        guard, model = self._guard, self._model
        if model.run_eagerly:
            return None
        guard.kinds, guard.heart.graphs = [], {}
        try:
            graph = self._held.trace(self._function)
            if guard.kinds:  # empty where the graph had been traced before
                guard.gradients[model] = dict(guard.kinds)
            graphs = guard.heart.graphs
        finally:
            guard.kinds = guard.heart.graphs = None
        if graph is None:
            return None
        if self._step == "train":
            kinds = guard.gradients.get(model, {})
            self._kinds = [kinds.get(id(variable), parts.NONE) for variable in model.trainable_weights]
        rows = self._held.rows()
        return liveness.estimate(graph, graphs, rows)

    def _split_function(self):
        guard, model, step = self._guard, self._model, self._step
        guard.begin_split(model, step, self._examined, self._kinds)
        if not accelerated():
            keep_giving_back()
        getattr(model, f"make_{step}_function")(force=True)
        function = getattr(model, f"{step}_function")
        if not model.run_eagerly:
            self._held.trace(function)  # what cannot be traced fails here, where the whole batch is still an answer
        return function

    def _trial(self, function, rows):
        """A micro-batch and the next, measured; nothing of them remains."""
        split = self._guard.split_of(self._model, self._step)
        rows = min(rows, self._held.rows())
        split.micro.assign(rows)
        split.trial.assign(True)
        try:
            with Unchanged(self._model):
                if not self._warm:  # what optimising the graph takes once is no part of a step
                    self._warm = True
                    function(self._held.again())
                give_back()
                peak, began = Peak(), time.monotonic()
                result = function(self._held.again())
                tf().nest.map_structure(lambda leaf: getattr(leaf, "numpy", lambda: None)(), result)
                seconds = (time.monotonic() - began) * rows / min(self._held.rows(), micro.TRIAL_PARTS * rows)
                return {"rows": rows, "peak": peak.read(), "seconds": seconds}
        finally:
            split.trial.assign(False)

    def _sizes(self):
        model = self._model
        optimizer = getattr(model, "optimizer", None)
        return {
            "weights": sum(_bytes(v) for v in model.weights),
            "trainable": sum(_bytes(v) for v in model.trainable_weights),
            "optimizer": sum(_bytes(v) for v in getattr(optimizer, "variables", ())),
            "optimizer_name": type(optimizer).__name__ if optimizer is not None else "",
            "mixed_precision": any(v.dtype != layer.compute_dtype for layer in model.layers for v in layer.weights[:1]),
        }


class Unchanged:
    """Whatever is run inside leaves the model's small state as it was: metrics, seeds, what layers keep."""

    def __init__(self, model):
        self._variables = list(model.metrics_variables)
        for layer in model._flatten_layers():
            self._variables += layer._non_trainable_variables
            self._variables += [generator.state for generator in getattr(layer, "_seed_generators", ())]

    def __enter__(self):
        self._values = [tf().identity(variable.value) for variable in self._variables]

    def __exit__(self, *_):
        for variable, value in zip(self._variables, self._values):
            variable.assign(value)


def _bytes(variable):
    size = 1
    for dimension in variable.shape:
        size *= int(dimension)
    return size * tf().as_dtype(variable.dtype).size


def fingerprint(model, step, held, source):
    """What a measured need depends on: the model, the rows' shapes, the versions."""
    optimizer = getattr(model, "optimizer", None)
    words = [
        step,
        type(model).__name__,
        *(f"{tuple(v.shape)}{v.dtype}{v.trainable}" for v in model.weights),
        *(type(layer).__name__ for layer in model._flatten_layers()),
        type(optimizer).__name__,
        str(held.spec()),
        str(held.rows()),
        str(bool(model.jit_compile)),
        str(bool(model.run_eagerly)),
        tf().__version__,
        import_module(source.removesuffix("src.").rstrip(".")).__version__,
    ]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:20]
