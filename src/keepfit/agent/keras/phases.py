"""Keras: phases, epochs and steps of an unmodified script.

The hooks sit on Keras' own containers (`CallbackList`, the trainer), not in the user's callback list,
so nothing the user can see or count changes.
"""

import json
import os
import sys
import time
from functools import wraps
from importlib import import_module

from ..heart import LOOK_EVERY  # reading the loss of every tiny step would cost more than the step's own store
from ..hooks import during, wrap
from ..lifeline import OURS
from . import guard, keeper, planning, replay, verifying, watch


def install(keras, heart):
    """Returns the names of what this version of Keras does not have."""
    missing = []
    source = "keras.src." if "keras.src" in sys.modules else "keras."
    callbacks = import_module(source + "callbacks.callback_list").CallbackList
    trainer = import_module(source + "trainers.trainer").Trainer
    _hide_our_frames(source)
    backend = import_module(source + "backend").backend()
    on_tensorflow = backend == "tensorflow"
    kept = _keeper(source, heart, missing) if on_tensorflow else None
    if on_tensorflow and planning.is_wanted():
        kind = verifying.Verifier if verifying.wanted() else planning.Planner
        heart.planner = kind(source, heart)
    around_fit = next((each.fitting for each in (heart.planner, kept) if each is not None), None)
    around_batch = _train_on_batch(heart)
    if not on_tensorflow and planning.is_wanted():
        refusal = planning.refusing(heart, f"Keras on TensorFlow was expected; this is Keras on {backend}")
        around_fit = around_batch = refusal
    for name, make in _CALLBACK_HOOKS.items():
        wrap(callbacks, name, make(heart), missing)
    for name in ("fit", "evaluate", "predict"):
        for owner in _trainers(trainer, keras):
            _wrap_loop(owner, name, heart, around_fit if name == "fit" else None)
    for owner in _trainers(trainer, keras):
        if "_maybe_symbolic_build" in vars(owner):
            wrap(owner, "_maybe_symbolic_build", _building(heart), missing)
        if "train_on_batch" in vars(owner):
            wrap(owner, "train_on_batch", around_batch, missing)
    wrap(trainer, "compile", during(heart, "build", only_from="data"), missing)
    layer = import_module(source + "layers.layer").Layer
    wrap(layer, "add_weight", during(heart, "build", only_from="data"), missing)
    functional = import_module(source + "models.functional").Functional
    wrap(functional, "__init__", during(heart, "build", only_from="data"), missing)
    saving = import_module(source + "saving.saving_api")
    for name in ("save_model", "save_weights"):
        wrap(saving, name, _saving(heart), missing)
    optimizer = import_module(source + "optimizers.base_optimizer").BaseOptimizer
    wrap(optimizer, "apply", _applying(heart), missing)
    if on_tensorflow:
        guarding = guard.install(source, heart, missing)
        if kept is not None:
            kept.guard, guarding.keeper = guarding, kept
        _numbers(source, heart, missing, guarding, kept)
        if os.environ.get("KEEPFIT_REPLAY"):
            replay.install(source, missing, guarding, _trainers(trainer, keras))
    return missing


def _keeper(source, heart, missing):
    """Of states; where it cannot be had, all the rest still can."""
    try:
        return keeper.install(source, heart, missing)
    except Exception as error:
        heart.failed("keeper.install", error)
        return None


def _numbers(source, heart, missing, guarding, kept):
    """The gate and what looks after it, where it was asked for; where it cannot be had, all the rest still can."""
    orders = json.loads(os.environ.get("KEEPFIT_NUMBERS") or "null")
    if orders is None or not heart.alive:
        return
    try:
        watch.install(source, heart, missing, guarding, kept, orders)
    except Exception as error:
        heart.failed("numbers.install", error)


def _trainers(trainer, keras):
    """The backend's trainer class, and the base it comes from."""
    return [kind for kind in keras.Model.__mro__ if issubclass(kind, trainer)]


def _hide_our_frames(source):
    """Keras cuts its own frames out of the user's tracebacks; ours between them go the same way."""
    filtering = import_module(source + "utils.traceback_utils")
    excluded = getattr(filtering, "_EXCLUDED_PATHS", None)
    if isinstance(excluded, tuple):
        filtering._EXCLUDED_PATHS = (*excluded, OURS)


def _wrap_loop(owner, name, heart, around=None):
    """`fit` and its kin, from the inside of Keras' traceback filter, so that we leave no frame."""
    decorated = vars(owner).get(name)
    if decorated is None:
        return
    inner = getattr(decorated, "__wrapped__", None)
    refilter = None
    if inner is not None:
        refilter = import_module(decorated.__globals__["__name__"]).filter_traceback
    original = inner or decorated
    if around is not None:
        original = wraps(original)(around(original))
    loop = wraps(original)(loop_around(heart, original))
    setattr(owner, name, refilter(loop) if refilter else loop)


def loop_around(heart, original):
    """A loop of Keras' that tells its own steps, from its first line to its last."""

    def loop(*args, **kwargs):
        outermost = not heart.in_fit
        before = heart.phase
        heart.in_fit = True
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            heart.erred(error)
            # The phase stays the one in which it failed; but what comes now is no longer the training.
            heart.doing("between")
            raise
        finally:
            if outermost:
                heart.in_fit = False
        if outermost:
            heart.ended()
            heart.source = heart.train_source = None
            heart.between()
        else:
            heart.leave(before)
        return result

    return loop


def _building(heart):
    def around(original):
        def build(self, iterator=None, *args, **kwargs):
            adapter = getattr(iterator, "data_adapter", None)
            if adapter is not None:
                heart.batch_size = _batch_size(adapter) or heart.batch_size
                heart.source = iterator
            before = heart.enter("build")
            try:
                return original(self, iterator, *args, **kwargs)
            finally:
                heart.leave(before)

        return build

    return around


def _batch_size(adapter):
    """The adapter's own word, else that of the `batch` stage of the tf.data pipeline behind it."""
    size = getattr(adapter, "batch_size", None)
    if isinstance(size, int):
        return size
    stage = getattr(adapter, "_dataset", None)
    for _ in range(32):
        if stage is None:
            return 0
        size = getattr(stage, "_batch_size", None)
        if size is not None:
            try:
                return int(size)
            except (TypeError, ValueError):
                return 0
        stage = getattr(stage, "_input_dataset", None)
    return 0


def _saving(heart):
    def around(original):
        def save(*args, **kwargs):
            before = heart.enter("checkpoint")
            heart.doing("saving")
            try:
                return original(*args, **kwargs)
            finally:
                heart.doing("callback" if heart.in_fit else "between")
                heart.leave(before)

        return save

    return around


def _train_on_batch(heart):
    def around(original):
        def train_on_batch(self, x=None, *args, **kwargs):
            if heart.in_fit:
                return original(self, x, *args, **kwargs)
            heart.enter("train")
            heart.doing("stepping")
            size = getattr(x, "shape", None)
            heart.batch_size = int(size[0]) if size is not None and len(size) else heart.batch_size
            heart.step_began(heart.steps)
            try:
                return original(self, x, *args, **kwargs)
            finally:
                heart.step_ended()
                heart.doing("between")
                heart.glance()

        return train_on_batch

    return around


def _applying(heart):
    def around(original):
        def apply(self, *args, **kwargs):
            loop = heart.loop
            if loop is not None and not heart.in_fit and _eager():
                loop.applied()
            if heart.planner is not None and not heart.in_fit:
                heart.planner.applying(self, _trained(self, *args, **kwargs), _eager())
            return original(self, *args, **kwargs)

        return apply

    return around


def _trained(optimizer, grads, trainable_variables=None):
    """What an `apply` changes."""
    return trainable_variables if trainable_variables is not None else optimizer._trainable_variables


def _eager():
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and tensorflow.executing_eagerly()


# --- the callback list: the same hooks in every backend ---------------------------------------------


def _train_begin(heart):
    def around(original):
        def on_train_begin(self, logs=None):
            heart.tick(-1)
            heart.step = -1
            heart.train_source = heart.source
            heart.enter("train")
            heart.doing("callback")
            heart.pace.watched = _has_batch_callbacks(self)
            original(self, logs)
            heart.doing("filling")

        return on_train_begin

    return around


def _has_batch_callbacks(callbacks):
    """Whether a callback that is not Keras' own does something at every batch."""
    names = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
    for callback in getattr(callbacks, "callbacks", ()):
        if type(callback).__module__.startswith("keras."):
            continue
        if not all(hasattr(getattr(callback, name, None), "_is_default") for name in names):
            return True
    return False


def _epoch_begin(heart):
    def around(original):
        def on_epoch_begin(self, epoch, logs=None):
            heart.doing("callback")
            original(self, epoch, logs)
            heart.epoch = epoch
            heart.step = -1
            heart.enter("train")
            heart.doing("filling")
            heart.tick(-1)
            heart.pace.first = heart.pace.busy = True
            heart.pace.last = float("inf")
            heart.epoch_begins(getattr(self, "_model", None))
            heart.beat()

        return on_epoch_begin

    return around


def _batch_begin(heart):
    pace = heart.pace

    def around(original):
        def on_train_batch_begin(self, batch, logs=None):
            if pace.busy:
                heart.doing("callback")
                original(self, batch, logs)
                # The first batch of an epoch waits for shuffle buffers and caches to fill.
                heart.doing("filling" if pace.first else "stepping")
                if pace.first:
                    heart.first_step = batch
            else:
                original(self, batch, logs)
            heart.tick(batch)

        return on_train_batch_begin

    return around


def _batch_end(heart):
    pace, clock = heart.pace, time.monotonic

    def around(original):
        def on_train_batch_end(self, batch, logs=None):
            if not pace.busy:
                return original(self, batch, logs)
            heart.doing("callback")
            original(self, batch, logs)
            now = clock()
            if now >= pace.due:
                pace.due = now + LOOK_EVERY
                heart.step_is(batch)
                try:
                    heart.loss = float((logs or {}).get("loss", heart.loss))
                except (TypeError, ValueError, AttributeError):
                    pass  # a loss that is no number is the user's business
                heart.beat()
                heart.callbacks, heart.logs = self, logs
                heart.look_around()
            if pace.first:
                pace.first = False
                pace.last = now  # what filled a buffer is no slow step
            # Between two batches the next one is being waited for: that is part of stepping.
            heart.doing("stepping")
            pace.busy = pace.watched

        return on_train_batch_end

    return around


def _epoch_end(heart):
    def around(original):
        def on_epoch_end(self, epoch, logs=None):
            heart.step_is(heart.live_step)
            heart.enter("train")
            heart.doing("callback")
            heart.beat()
            heart.ended()
            original(self, epoch, logs)
            heart.doing("filling")

        return on_epoch_end

    return around


def _enters(phase):
    def make(heart):
        def around(original):
            def begin(self, logs=None):
                heart.enter(phase)
                heart.doing("callback")
                original(self, logs)
                heart.doing("filling")

            return begin

        return around

    return make


def _ticks(heart):
    """A batch of `evaluate` or `predict`: a sign of life, without a record of its own."""

    def around(original):
        def batch_end(self, batch, logs=None):
            heart.doing("callback")
            original(self, batch, logs)
            heart.doing("stepping")
            heart.beat()

        return batch_end

    return around


def callback_hooks():
    return dict(_CALLBACK_HOOKS)


_CALLBACK_HOOKS = {
    "on_train_begin": _train_begin,
    "on_epoch_begin": _epoch_begin,
    "on_train_batch_begin": _batch_begin,
    "on_train_batch_end": _batch_end,
    "on_epoch_end": _epoch_end,
    "on_test_begin": _enters("validation"),
    "on_test_batch_end": _ticks,
    "on_predict_begin": _enters("predict"),
    "on_predict_batch_end": _ticks,
}
