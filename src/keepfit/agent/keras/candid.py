"""What the program is told of a batch that was not finite: the batch as it was.

The gate takes such a batch back, and with it the NaN in the logs. But a callback may be there to end the training for
a NaN (`TerminateOnNaN`, or one of the script's own), or a loop around `train_on_batch` may look at what that returns:
that is the user's decision. So they get the logs that the step itself had made, this once; who then sets
`stop_training`, or raises, has decided. Epoch logs and History are those of a training without that batch, and so is
the progress bar, whose averages a NaN would spoil for good.
"""

from ..tensorflow.parts import np


class Candour:
    def __init__(self, numbers, heart):
        self._numbers, self._heart = numbers, heart

    def tell(self, callbacks, batch, logs, original):
        """`original` is the list's own `on_train_batch_end`; what a callback raises goes its way."""
        model = getattr(callbacks, "_model", None) or getattr(callbacks, "model", None)
        shown = self._numbers.untold(model)
        if not shown or not isinstance(logs, dict):
            original(callbacks, batch, logs)
            return
        stopped = bool(getattr(model, "stop_training", False))
        bar = _Bar(callbacks, logs)
        try:
            original(callbacks, batch, {**logs, **{name: shown[name] for name in logs if name in shown}})
            bar.wait()
        except BaseException as error:
            kind = type(error)
            self._numbers.ended_by = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            raise
        finally:
            bar.restore()
        if getattr(model, "stop_training", False) and not stopped:
            self._numbers.ended_by = "stop_training"

    def returning(self, original):
        """Around `train_on_batch`, whose logs are what a loop of the script's own goes by."""

        def train_on_batch(model, *args, **kwargs):
            result = original(model, *args, **kwargs)
            shown = self._numbers.untold(model)
            if not shown or self._heart.in_fit:
                return result
            try:
                return _as_it_was(model, shown, result)
            except Exception as error:  # what a step returns is another version's, or the script's own
                self._heart.failed("candid", error)
                return result

        return train_on_batch


def _as_it_was(model, shown, result):
    """The result once more, in its own form (a dictionary, a list or one number), with what the step had made."""
    if isinstance(result, dict):
        return {name: _like(value, shown.get(name, value)) for name, value in result.items()}
    told = model._flatten_metrics_in_order(shown)
    if isinstance(result, list):
        return [_like(*pair) for pair in zip(result, told)] if len(told) == len(result) else result
    return _like(result, told)


def _like(value, told):
    return float(told) if isinstance(value, float) else np().asarray(told)


class _Bar:
    """The progress bar of a list of callbacks, which is told what everybody would have been told otherwise."""

    def __init__(self, callbacks, logs):
        self._callbacks = callbacks
        self._bar = bar = getattr(callbacks, "_progbar", None)
        if bar is not None:
            bar.on_train_batch_end = lambda batch, *args, **kwargs: type(bar).on_train_batch_end(bar, batch, logs)

    def wait(self):
        """Where callbacks are told by another thread, until they have been: they may decide, too."""
        flush = getattr(self._callbacks, "_flush_futures", None)
        if flush is not None:
            flush()

    def restore(self):
        if self._bar is not None:
            vars(self._bar).pop("on_train_batch_end", None)
