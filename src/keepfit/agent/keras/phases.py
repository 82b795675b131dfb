"""Keras: phases, epochs and steps of an unmodified script.

The hooks sit on Keras' own trainer and on its list of callbacks (`moments`), not among the user's.
"""

import json
import os
import sys
from functools import partial
from importlib import import_module

from ..hooks import during, wrap, wrapped
from . import guard, keeper, moments, planning, replay, verifying, watch


def install(keras, heart):
    """Returns the names of what this version of Keras does not have."""
    missing = []
    source = "keras.src." if "keras.src" in sys.modules else "keras."
    trainer = import_module(source + "trainers.trainer").Trainer
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
    moments.install(import_module(source + "callbacks.callback_list").CallbackList, heart, missing)
    for name in ("fit", "evaluate", "predict"):
        for owner in _trainers(trainer, keras):
            _wrap_loop(owner, name, heart, around_fit if name == "fit" else None)
    for owner in _trainers(trainer, keras):
        if "_maybe_symbolic_build" in vars(owner):
            wrap(owner, "_maybe_symbolic_build", _building(heart), missing)
        if "train_on_batch" in vars(owner):
            wrap(owner, "train_on_batch", around_batch, missing, entered=True)
    wrap(trainer, "compile", during(heart, "build", only_from="data"), missing, entered=True)
    layer = import_module(source + "layers.layer").Layer
    wrap(layer, "add_weight", during(heart, "build", only_from="data"), missing, entered=True)
    functional = import_module(source + "models.functional").Functional
    wrap(functional, "__init__", during(heart, "build", only_from="data"), missing, entered=True)
    saving = import_module(source + "saving.saving_api")
    for name in ("save_model", "save_weights"):
        wrap(saving, name, _saving(heart), missing, entered=True)
    optimizer = import_module(source + "optimizers.base_optimizer").BaseOptimizer
    wrap(optimizer, "apply", _applying(heart), missing, entered=True)
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
        original = wrapped(original, around)
    loop = wrapped(original, partial(loop_around, heart), entered=True)
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
