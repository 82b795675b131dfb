"""One decision: does a step's batch run whole or in parts? What it takes to answer, and what is run from then on."""

import hashlib
import time
from importlib import import_module

from ..peak import Peak, anonymous, give_back, keep_giving_back, stop_giving_back
from ..tensorflow import device, liveness, parts, tracing
from ..tensorflow.parts import tf
from . import examine, micro


class Decision:
    """One question to the supervisor, and what it takes to answer it."""

    def __init__(self, guard, model, step, function, held):
        self._guard, self._model, self._step = guard, model, step
        self._function, self._held = function, held
        self._kinds = None
        self._examined = None
        self._warm = False
        self._graphs = {}  # by name: what was traced last, to be looked at
        self._seen_whole = False  # whether the step was traced as Keras has it
        self._of_a_part = None  # the estimate that the split step's own graph gives

    def take(self):
        """The function to go on with."""
        guard, model, step = self._guard, self._model, self._step
        if device.accelerated():
            return self._on_a_device()
        # After a death for want of memory it is known that the batch will not run whole: its graph, tens of MiB for
        # an estimate of just that, is not traced again.
        estimate = None if guard.lean and step == "train" else self._estimate()
        rows = self._held.rows()
        answer = guard.counsel.ask(
            "batch",
            step=step,
            rows=rows,
            key=fingerprint(model, step, self._held, guard.source),
            estimate=estimate,
            in_use=anonymous(),
            saving=guard.saving(),
            model=sizes_of(self._model),
            resumed=guard.resumed.get(model) if step == "train" else None,
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
            answer = guard.counsel.ask("tried", step=step, estimate=self._of_a_part, **self._trial(function, wanted))
        guard.end_split(model, step)
        guard.decided(model, step, rows)
        if function is not None:
            stop_giving_back()
        return self.plain()

    def _on_a_device(self):
        """The device's memory is its own affair: nothing is decided before it runs out.

        But a step that XLA does not compile may apply some gradients before it fails on others. Its parts
        (a single one at first) are summed first and applied last, so that it can be tried again.
        """
        guard, model, step = self._guard, self._model, self._step
        facts = {"key": "", "in_use": anonymous(), "model": sizes_of(self._model), "device": "gpu"}
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
        tracing.dismantle(self._graphs.values())
        self._graphs = {}
        give_back()

    def _can_split(self):
        """Look at the model with a few rows of the batch; what speaks against splitting is reported."""
        model, step = self._model, self._step
        if model.run_eagerly or (step == "train" and not self._seen_whole):  # no trace has built it
            model._symbolic_build(data_batch=parts.of_any_rows(self._held.first()))
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
        guard.kinds = []
        try:
            with tracing.collected(guard.heart) as self._graphs:
                graph = self._held.trace(self._function)
            if guard.kinds:  # empty where the graph had been traced before
                guard.gradients[model] = dict(guard.kinds)
        finally:
            guard.kinds = None
        if graph is None:
            return None
        self._seen_whole = True
        if self._step == "train":
            kinds = guard.gradients.get(model, {})
            self._kinds = [kinds.get(id(variable), parts.NONE) for variable in model.trainable_weights]
        rows = self._held.rows()
        return liveness.estimate(graph, self._graphs, rows)

    def _split_function(self):
        guard, model, step = self._guard, self._model, self._step
        split = guard.begin_split(model, step, self._examined, self._kinds)
        if not device.accelerated():
            keep_giving_back()
        function = self._traced_split()
        if step == "train" and split.seen_kinds != split.gradient_kinds:  # not known before, and not as supposed
            split.gradient_kinds = split.seen_kinds
            function = None
            self._let_go()
            function = self._traced_split()
        return function

    def _traced_split(self):
        model, step = self._model, self._step
        getattr(model, f"make_{step}_function")(force=True)
        function = getattr(model, f"{step}_function")
        if not model.run_eagerly:
            with tracing.collected(self._guard.heart) as self._graphs:
                # What cannot be traced fails here, where the whole batch is still an answer.
                graph = self._held.trace(function)
            self._of_a_part = liveness.estimate(graph, self._graphs, self._held.rows())
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


def sizes_of(model):
    """Bytes of the model's own: all weights, those that are trained, what the optimizer keeps."""
    optimizer = getattr(model, "optimizer", None)
    return {
        "weights": sum(bytes_of(v) for v in model.weights),
        "trainable": sum(bytes_of(v) for v in model.trainable_weights),
        "optimizer": sum(bytes_of(v) for v in getattr(optimizer, "variables", ())),
    }


def bytes_of(variable):
    size = 1
    for dimension in variable.shape:
        size *= int(dimension)
    return size * tf().as_dtype(variable.dtype).size


def versions(source):
    """Of what a measured need depends on, besides the model."""
    return [tf().__version__, import_module(source.removesuffix("src.").rstrip(".")).__version__]


def _settings(optimizer):
    """Those that an optimizer's state goes by are among them; its learning rate is not, nor what cannot be told."""
    try:
        told = optimizer.get_config().items()
    except Exception:
        return []
    plain = [(name, value) for name, value in told if isinstance(value, (bool, int, float))]
    return sorted(f"{name}={value}" for name, value in plain if "rate" not in name)


def fingerprint(model, step, held, source, of_versions=True):
    """What a measured need depends on: the model, the rows' shapes, the versions."""
    optimizer = getattr(model, "optimizer", None)
    words = [
        step,
        type(model).__name__,
        *(f"{tuple(v.shape)}{v.dtype}{v.trainable}" for v in model.weights),
        *(type(layer).__name__ for layer in model._flatten_layers()),
        type(optimizer).__name__,
        *_settings(optimizer),
        str(held.spec()),
        str(held.rows()),
        str(bool(model.jit_compile)),
        str(bool(model.run_eagerly)),
        *(versions(source) if of_versions else ()),
    ]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:20]
