"""The moments of a training, as Keras tells its list of callbacks: the same in every backend, and in legacy Keras.

The hooks sit on the list, not among the user's callbacks, so nothing the user can see or count changes.
"""

import time

from ..heart import LOOK_EVERY  # reading the loss of every tiny step would cost more than the step's own store
from ..hooks import wrap


def install(container, heart, missing):
    """On the class of the list; the names of what it does not have go to `missing`."""
    for name, make in _HOOKS.items():
        wrap(container, name, make(heart), missing)


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
            if heart.batch_told is None:
                original(self, batch, logs)
            else:
                heart.batch_told(self, batch, logs, original)
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


_HOOKS = {
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
