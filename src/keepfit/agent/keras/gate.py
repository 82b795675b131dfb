"""The gate: an update that is not finite is not applied.

Loss and gradients are looked at inside the compiled step. Where one of them is not finite the optimizer is passed
by, and all that the step has changed on its way is put back: statistics, metrics, seeds. It leaves no trace but a
count, and its batch is handed to Python, outside of what XLA compiles, where the culprit is looked for.
"""

import contextlib
import threading
import weakref
from importlib import import_module

from ..hooks import wrap
from ..tensorflow import finite, variables
from ..tensorflow.parts import tf
from .watched import Watched, present


def install(source, missing, clip=None):
    gate = Gate(source, clip)
    trainer = import_module(source + "backend.tensorflow.trainer").TensorFlowTrainer
    wrap(trainer, "_make_function", gate.making, missing)
    wrap(trainer, "_autoconvert_optionals", gate.converting, missing)
    wrap(import_module(source + "trainers.trainer").Trainer, "_compute_loss", gate.losing, missing)
    wrap(
        import_module(source + "optimizers.base_optimizer").BaseOptimizer, "apply", gate.applying, missing, entered=True
    )
    scaled = import_module(source + "optimizers.loss_scale_optimizer").LossScaleOptimizer
    wrap(scaled, "apply", gate.applying_scaled, missing, entered=True)
    return gate


class Seen:
    """What one step (traced, or run at once) has shown of its numbers."""

    def __init__(self, watched):
        self.watched = watched
        self.graph = finite.graph()
        self.losses = []
        self.squares = []  # vectors, one an optimizer
        self.oks = []
        self.judged = {}  # id of an optimizer -> whether its gradients are finite
        self.scaled = False  # an optimizer scales the loss, and deals with overflows itself

    def is_here(self):
        return finite.graph() is self.graph

    def counts_early(self):
        return self.graph is not None and self.is_here()

    def judge(self, optimizer, gradients, trained, losses=()):
        """Look at gradients before they are applied (in a branch, perhaps, that cannot be looked into)."""
        self.losses += losses
        found = finite.squares(gradients)
        self.watched.trains(gradients, trained)
        scale = getattr(optimizer, "dynamic_scale", None)
        if scale is not None:
            self.scaled = True
            self.squares.append(found / tf().cast(variables.read(scale), found.dtype) ** 2)
            return
        self.squares.append(found)
        self.judged[id(optimizer)] = ok = finite.all_finite([tf().reduce_sum(found), *self.losses])
        self.oks.append(ok)

    def flags(self):
        """(is it finite, the loss, half the squared norms of the gradients): what goes out of the compiled step."""
        # Where the loss is scaled, gradients that overflow are no event: then only the loss counts.
        oks = self.oks if self.oks and not self.scaled else [*self.oks, finite.all_finite(self.losses)]
        ok = oks[0] if len(oks) == 1 else tf().reduce_all(tf().stack(oks))
        loss = tf().cast(self.losses[-1], tf().float32) if self.losses else tf().constant(float("nan"))
        found = tf().concat(self.squares, 0) if self.squares else tf().zeros((0,), tf().float32)
        return ok, tf().reduce_mean(loss), found


class Gate:
    def __init__(self, source, clip=None):
        self._source = source
        self._clip = clip  # None, or a variable: the most that the norm of all gradients may be
        self._watched = weakref.WeakKeyDictionary()  # model -> {step: Watched}
        self._local = threading.local()
        self.failed = lambda what, error: None  # told of what went wrong here, and of nothing else
        self.stands_aside = lambda devices: None  # told that a training on several of them is not looked at
        self.handed = lambda watched, batch: None  # told of every batch that is handed over
        self.passed_by = None  # a variable that counts updates of hand-written loops that were not applied

    @property
    def seen(self):
        """Of the step that is being traced, or run at once, in this thread."""
        return getattr(self._local, "seen", None)

    def watched(self, model, step="train"):
        return self._watched.get(model, {}).get(step)

    @contextlib.contextmanager
    def replaying(self, trail):
        """While a step is run once more to be looked at: nothing is applied, `trail` gets losses and gradients."""
        self._local.replaying = trail
        try:
            yield
        finally:
            self._local.replaying = None

    # --- around a step ----------------------------------------------------------------------------------

    def making(self, original):
        """Around `_make_function`, which Keras makes its training and testing functions with."""

        def _make_function(model, step_function):
            step = {"train_step": "train", "test_step": "test"}.get(getattr(step_function, "__name__", ""))
            if step is None:
                return original(model, step_function)
            if (devices := finite.replicas(model)) > 1:
                self.stands_aside(devices)
                return original(model, step_function)
            steps = self._watched.setdefault(model, {})
            watched = steps[step] = steps.get(step) or Watched(model, step, self._source)
            watched.begin_trace()
            self._local.making = watched
            try:
                return original(model, self._gated(watched, step_function))
            finally:
                self._local.making = None

        return _make_function

    def converting(self, original):
        """Around `_autoconvert_optionals`: its function calls the compiled step, and is not compiled by XLA itself."""

        def _autoconvert_optionals(model, step_func):
            watched = getattr(self._local, "making", None)
            inner = original(model, step_func)
            if watched is None:
                return inner

            def one_step(data):
                model = watched.model()
                if not watched.is_traced:
                    watched.is_traced = True
                    _trace(step_func, data)
                changed = watched.changed_by_steps(model) if watched.step == "train" else []
                before = [variables.read(variable) for variable in changed]
                outcome = inner(data)
                if outcome is None:  # its first trace ended in an error of the user's, which is to be met again
                    outcome = step_func.python_function(tf().nest.map_structure(present, data))
                result, flags = outcome
                try:
                    flags = _with_state(watched, flags, changed)
                    shown = result
                    if changed:
                        result = _put_back(model, flags[0], list(zip(changed, before)), result)
                    watched.note(flags, data, shown, self.handed)
                except Exception as error:  # an unusual batch or result: it is trained on as it is
                    self.failed("gate", error)
                return result

            one_step.__wrapped__ = step_func
            return one_step

        return _autoconvert_optionals

    def _gated(self, watched, step_function):
        """The step, and beside its result what was seen of its numbers.

        What it changes is put back around it, where XLA does not compile: read inside, statistics would come out with
        other last bits.
        """

        def gated(data):
            seen = self._local.seen = Seen(watched)
            try:
                result = step_function(data)
            finally:
                self._local.seen = None
            watched.scaled = seen.scaled
            return result, seen.flags()

        return gated

    # --- what steps are made of ---------------------------------------------------------------------------

    def losing(self, original):
        def _compute_loss(model, *args, **kwargs):
            loss = original(model, *args, **kwargs)
            seen, replaying = self.seen, getattr(self._local, "replaying", None)
            if replaying is not None:
                replaying.loss(loss)
            elif seen is not None and loss is not None and seen.is_here():
                seen.losses.append(tf().convert_to_tensor(loss))
            return loss

        return _compute_loss

    def applying(self, original):
        def apply(optimizer, grads, trainable_variables=None):
            local = self._local
            if getattr(local, "inside", False) or not len(grads) or finite.replicas() > 1:
                return original(optimizer, grads, trainable_variables)
            trained = list(trainable_variables) if trainable_variables is not None else optimizer._trainable_variables
            if getattr(local, "replaying", None) is not None:
                return local.replaying.gradients(grads, trained)
            grads = list(grads)
            ok = self._judged(optimizer, grads, trained)
            if not optimizer.built:  # its variables cannot be made inside a branch
                with tf().init_scope():
                    optimizer.build(trained)
            grads = self._clipped(grads)
            # Keras counts an iteration also for the step that finds the data at its end, because counting does not
            # wait for the data. In a branch it would: so it is counted beforehand, and taken back inside.
            counted = optimizer._iterations if self.seen is not None and self.seen.counts_early() else None
            if counted is not None:
                counted.assign_add(1)

            def passed_by():
                if counted is not None:
                    counted.assign_sub(1)
                return False

            def act():
                passed_by()
                original(optimizer, grads, trainable_variables)
                return True

            self._inside(lambda: tf().cond(ok, act, passed_by))
            return None

        return apply

    def applying_scaled(self, original):
        """`LossScaleOptimizer` passes over what overflows by itself, and learns from it."""

        def apply(optimizer, grads, trainable_variables=None):
            trained = list(trainable_variables) if trainable_variables is not None else optimizer._trainable_variables
            if getattr(self._local, "replaying", None) is not None:
                return self._local.replaying.gradients(grads, trained)
            seen = self.seen
            if seen is not None and seen.is_here() and not seen.scaled and optimizer.built:
                seen.judge(optimizer, list(grads), trained)
            self._inside(lambda: original(optimizer, grads, trainable_variables))
            return None

        return apply

    def _judged(self, optimizer, grads, trained):
        seen = self.seen
        if seen is not None and id(optimizer) not in seen.judged and seen.is_here():
            seen.judge(optimizer, grads, trained)
        if seen is not None and id(optimizer) in seen.judged:
            return seen.judged[id(optimizer)]
        ok = tf().math.is_finite(tf().reduce_sum(finite.squares(grads)))
        # A loop of the user's own, or a function of his inside the step: weights and optimizer only.
        self._passed_by().assign_add(tf().cast(tf().logical_not(ok), tf().int32))
        return ok

    def _passed_by(self):
        if self.passed_by is None:
            with tf().init_scope():
                self.passed_by = tf().Variable(0, dtype=tf().int32, trainable=False, name="keepfit_passed_by")
        return self.passed_by

    def _clipped(self, grads):
        if self._clip is None:
            return grads
        norm = tf().sqrt(2 * tf().reduce_sum(finite.squares(grads)))
        factor = tf().minimum(1.0, self._clip / tf().maximum(norm, 1e-30))
        return [None if gradient is None else _times(gradient, factor) for gradient in grads]

    def _inside(self, act):
        """Optimizers that wrap others are looked at once."""
        before = getattr(self._local, "inside", False)
        self._local.inside = True
        try:
            act()
        finally:
            self._local.inside = before


def _trace(step_func, data):
    """The step's graph before its first call: only then all metrics have their variables. It is traced once anyway."""
    if hasattr(step_func, "get_concrete_function"):
        # An error in it shows as many of TensorFlow's frames as one in a call would.
        filtering = import_module("tensorflow.python.util.traceback_utils").filter_traceback
        filtering(step_func.get_concrete_function)(tf().nest.map_structure(present, data))


def _with_state(watched, flags, changed):
    """Under a loss scale, what the forward pass has made of a NaN tells it from an overflow of scaled gradients."""
    if not watched.scaled:
        return flags
    ok, *rest = flags
    floats = [variables.read(variable) for variable in changed if "float" in str(variable.dtype)]
    return tf().logical_and(ok, finite.all_finite(floats)), *rest


def _put_back(model, ok, changed, result):
    """What the step returns; where it was not finite, as if it had not been."""
    told = tf().nest.map_structure(tf().convert_to_tensor, result)

    def as_before():
        for variable, value in changed:
            variable.assign(value)
        return _metrics_now(model, told)

    if not tf().nest.flatten(told):
        tf().cond(ok, lambda: True, lambda: as_before() is None)
        return result
    return tf().cond(ok, lambda: told, as_before)


def _metrics_now(model, told):
    """What is reported of a step that did not happen: the metrics so far, where that is what steps report."""
    now = model.get_metrics_result() if isinstance(told, dict) else None
    try:
        return tf().nest.map_structure(lambda value, like: tf().cast(value, like.dtype), now, told)
    except (TypeError, ValueError):
        return told


def _times(gradient, factor):
    if isinstance(gradient, tf().IndexedSlices):
        return tf().IndexedSlices(_times(gradient.values, factor), gradient.indices, gradient.dense_shape)
    return gradient * tf().cast(factor, gradient.dtype)
