"""What callbacks remember from one epoch to the next, out and back in.

Keras' own are known by name. A callback of the user's takes part through `get_state` and `set_state`, if it has
both; one that keeps something and has neither is named, so that it can be said.
"""

import os

from ..packing import Unpackable, has_state, pack, unpack

# Class of Keras' -> the attributes that make it go on where it was. What is set up at every start is not among them.
REMEMBERED = {
    "History": ("history", "epoch"),
    "ProgbarLogger": ("seen",),
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_weights", "best_epoch"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": ("best", "_batches_seen_since_last_saving", "_last_batch_seen", "_current_epoch"),
    "BackupAndRestore": ("_batches_seen_since_last_saving", "_last_batch_seen", "_current_epoch"),
    "OrbaxCheckpoint": ("best", "_total_batches_seen", "_batches_seen_since_last_saving", "_last_batch_seen"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
    "TensorBoard": ("_global_train_batch", "_global_test_batch", "_previous_epoch_iterations", "_should_trace"),
    "CSVLogger": ("keys",),
}
_BASE = frozenset({"_model", "params", "model"})


def take(callbacks, keep):
    """[{class, attributes, …}] in the order of the list."""
    return [_take_one(callback, keep) for callback in callbacks]


def _take_one(callback, keep):
    held = {"class": type(callback).__name__}
    attributes = {}
    for name in _remembered(callback):
        try:
            attributes[name] = pack(getattr(callback, name, None), keep)
        except Unpackable:
            continue
    if attributes:
        held["attributes"] = attributes
    if has_state(callback):
        try:
            held["state"] = pack(callback.get_state(), lambda array: keep(array.copy()))  # it may change its arrays
        except Exception:  # the user's, or no plain data: then this one callback begins anew, and is named
            held["lost"] = True
    if (file := _csv_file(callback)) is not None:
        file.flush()
        held["written"] = os.stat(callback.filename).st_size
    return held


def before_begin(callbacks, saved):
    """Before they are told that the training begins: a log that is being written must not be started anew."""
    for callback, held in _pairs(callbacks, saved):
        if "written" in held and os.path.exists(callback.filename):
            os.truncate(callback.filename, min(held["written"], os.stat(callback.filename).st_size))
            callback._keepfit_append, callback.append = callback.append, True
            callback._keepfit_header = callback.append_header


def put(callbacks, saved, fetch):
    """After they were told: as they were."""
    for callback, held in _pairs(callbacks, saved):
        for name, value in held.get("attributes", {}).items():
            setattr(callback, name, unpack(value, fetch))
        if "state" in held and has_state(callback):
            callback.set_state(unpack(held["state"], fetch))
        if hasattr(callback, "_keepfit_append"):
            callback.append = vars(callback).pop("_keepfit_append")


def at_end(callbacks):
    """After the training that went on: one that follows begins its log as it would have."""
    for callback in callbacks:
        if "_keepfit_header" in vars(callback):
            callback.append_header = vars(callback).pop("_keepfit_header")


def forgetful(callbacks):
    """Names of those that keep something which is not saved."""
    found = []
    for callback in callbacks:
        if _is_keras(type(callback)) or has_state(callback):
            continue
        known = {name for kind in type(callback).__mro__ for name in REMEMBERED.get(kind.__name__, ())}
        keras_own = set().union(*(_set_by(kind) for kind in type(callback).__mro__ if _is_keras(kind)))
        if set(vars(callback)) - known - keras_own - _BASE:
            found.append(type(callback).__name__)
    return found


def lost(saved):
    """Names of those whose own `get_state` failed, or returned what is no plain data."""
    return [held["class"] for held in saved if held.get("lost")]


def _pairs(callbacks, saved):
    """Each callback with what was saved of it; a list that has changed is matched as far as it goes."""
    for callback, held in zip(callbacks, saved):
        if type(callback).__name__ == held.get("class"):
            yield callback, held


def _remembered(callback):
    found = []
    for kind in type(callback).__mro__:
        if _is_keras(kind):
            found += REMEMBERED.get(kind.__name__, ())
    return found


def _csv_file(callback):
    if not any(kind.__name__ == "CSVLogger" and _is_keras(kind) for kind in type(callback).__mro__):
        return None
    file = callback.csv_file
    return file if file is not None and not file.closed and os.path.exists(callback.filename) else None


def _is_keras(kind):
    return kind.__module__.split(".")[0] in ("keras", "tf_keras")


def _set_by(kind):
    """Names of attributes that a class of Keras' sets in any of its methods."""
    names = set()
    for method in vars(kind).values():
        code = getattr(method, "__code__", None)
        if code is not None:
            names.update(code.co_names)
    return names
