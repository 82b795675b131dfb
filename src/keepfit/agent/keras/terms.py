"""The terms of a Keras loss, each taken with the weight it has in the whole batch.

A loss over the whole batch is a sum of terms: one for every output's loss function, one for everything that
layers add (`add_loss`, activity regularisation), one for every weight's regularisation. A part of the batch
contributes to each with its *share*:

    rows    a mean over samples: rows of the part / rows of the batch
    valid   a mean over unmasked (or weighted) elements: those of the part / those of the batch
    one     a sum: everything

Keras itself reduces; we multiply what comes out by the share. Nothing is changed outside of a `Tally`.
"""

from importlib import import_module

ROWS, VALID, ONE, COUPLED = "rows", "valid", "one", "coupled"

_current = None  # the tally that is open now: tracing is single-threaded, and nothing here runs per step


def install(source):
    """Have Keras' reduction tell the open tally what it divides by. `source` is where Keras' own code lives."""
    module = import_module(source + "losses.loss")
    original = module.reduce_weighted_values

    def reduce_weighted_values(values, sample_weight=None, mask=None, reduction="sum_over_batch_size", dtype=None):
        if _current is not None:
            _current.reduced(module, values, sample_weight, mask, reduction)
        return original(values, sample_weight=sample_weight, mask=mask, reduction=reduction, dtype=dtype)

    reduce_weighted_values.__wrapped__ = original
    module.reduce_weighted_values = reduce_weighted_values


class Tally:
    """While it is open, `model`'s loss functions are followed term by term.

    `weigh(index, count)` answers with the factor of a term, given what this part was divided by (None where
    Keras did not reduce: a loss that returns a scalar, or reduces by itself).
    """

    def __init__(self, model, weigh):
        self._loss = model._compile_loss
        self._weigh = weigh
        self.values = []  # of every output's loss, unweighted by loss_weights, with its factor
        self.counts = []  # what each was divided by: (kind, count), or None
        self._told = None

    def __enter__(self):
        global _current
        _current = self
        if self._loss is not None:
            self._kept = self._loss._flat_losses, self._loss._metrics
            self._loss._flat_losses = [
                entry._replace(loss=_Followed(self, index, entry.loss)) for index, entry in enumerate(self._kept[0])
            ]
            # Keras updates one tracker an output for each call; ours is called per part, theirs once a batch.
            self._loss._metrics = [_NoTracker() for _ in self._kept[1]]
        return self

    def __exit__(self, *_):
        global _current
        _current = None
        if self._loss is not None:
            self._loss._flat_losses, self._loss._metrics = self._kept

    def reduced(self, module, values, sample_weight, mask, reduction):
        """Keras reduces the samples' losses: what will it divide by?"""
        ops = module.ops
        if reduction in (None, "none") or values.shape.rank == 0:
            return
        if reduction == "sum":
            self._told = (ONE, None)
        elif reduction == "mean_with_sample_weight" and (sample_weight is not None or mask is not None):
            weight = module.apply_mask(sample_weight, mask, dtype=values.dtype, reduction=reduction)
            self._told = (VALID, ops.sum(ops.cast(weight, "float32")))
        elif mask is not None:
            self._told = (VALID, ops.sum(ops.cast(mask, "float32")))
        else:
            self._told = (ROWS, None)

    def call(self, index, loss, y_true, y_pred, sample_weight):
        self._told = None
        value = loss(y_true, y_pred, sample_weight)
        count, self._told = self._told, None
        self.counts.append(count)
        value = value * self._weigh(index, count, value.dtype)
        self.values.append(value)
        return value


class _Followed:
    """Stands in for one output's loss function while a tally is open."""

    def __init__(self, tally, index, loss):
        self._tally, self._index, self._loss = tally, index, loss

    def __call__(self, y_true, y_pred, sample_weight=None):
        return self._tally.call(self._index, self._loss, y_true, y_pred, sample_weight)


class _NoTracker:
    def update_state(self, *args, **kwargs):
        return None


def regularisation(model):
    """(losses that layers added in the last call, losses of the weights)."""
    everything = model.losses
    of_weights = len(model._get_regularization_losses())
    cut = len(everything) - of_weights
    return everything[:cut], everything[cut:]
