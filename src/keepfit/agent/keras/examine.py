"""Looking at a model before its batches are split: which losses are sums, which means, what couples samples.

A few rows of the first batch go through the model whole and in two unequal parts. What a loss is, is read
from the numbers, not from its name; where the whole is neither the sum nor the mean of the parts, the
samples are coupled, and the batch is not split. Nothing of the model is changed.
"""

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ..tensorflow import parts
from ..tensorflow.parts import tf
from . import terms

ROWS = 5  # of the first batch, cut after the second
CUT = 2
MANY = 256  # rows for a loss that has to be looked at closer
TOLERANCE = 1e-3  # relative: what another order of summation does to float32, with room


@dataclass
class Examined:
    """What splitting needs to know of a model."""

    kinds: list = field(default_factory=list)  # of every output's loss (see terms)
    added: list = field(default_factory=list)  # of everything layers add to the loss
    own_loss: Any = None  # the kind of the user's own compute_loss as a whole, where there is one
    structure: Any = None  # of the predictions
    outputs: list = field(default_factory=list)  # (dtype, shape of a row) of every prediction
    masks: dict = field(default_factory=dict)  # index of a prediction -> (dtype, shape of a row) of its mask
    gathers: bool = False  # metrics need the whole batch's predictions
    refusal: str = ""  # why the batch cannot be split
    refusal_kind: str = ""
    notes: list = field(default_factory=list)  # where splitting is not exact


def refuse(kind, why):
    return Examined(refusal=why, refusal_kind=kind)


def examine(model, data, step, source):
    """`data` is a concrete batch, `step` one of train, test, predict."""
    unfit = _unfit(model, step, source) or _uncut(data)
    if unfit is not None:
        return unfit
    rows = min(ROWS, int(parts.rows_of(data)))
    if rows < 2:
        return refuse("single", "a batch of one row cannot be split")
    # Rows spread over the batch: neighbours may be alike (sorted data), and then hide a coupling.
    few = _gathered(data, rows)
    cut = max(1, min(CUT, rows - 2))
    training = step == "train" and not _normalised(model) and all(map(_can_be_quieted, _drawing(model)))
    with _Quiet(_drawing(model)):
        whole = _Pass(model, few, step, training, source)
        bounds = ((0, cut), (cut, rows - cut))
        pieces = [_Pass(model, parts.cut(few, *each), step, training, source) for each in bounds]
    found = _compare(whole, pieces, step)
    if found.refusal:
        return found
    if step == "train" and not training and len(_Pass(model, few, step, True, source).added) != len(whole.added):
        return refuse("coupled", "layers add other losses while training, and what these are cannot be told")
    if whole.own is not None or any(told is None for told, _ in whole.counts):
        found = _look_closer(model, data, step, training, source, found)
    if not found.refusal:
        found.notes = notes(model) if step == "train" else []
        found.gathers = step != "predict" and _needs_whole_predictions(model, found, source)
    return found


# --- what can be told without running anything --------------------------------------------------------


def has_own(model, step, source):
    base = import_module(source + "backend.tensorflow.trainer").TensorFlowTrainer
    name = f"{step}_step"
    return name in vars(model) or getattr(type(model), name) is not getattr(base, name)


def _unfit(model, step, source):
    if has_own(model, step, source):
        return refuse("own-step", f"{type(model).__name__} has a {step}_step of its own")
    if getattr(model, "_distribute_strategy", None) is not None:
        return refuse("strategy", "the model belongs to a distribution strategy")
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False):
            return refuse("fixed-batch", f"layer {layer.name} is stateful: its state has the batch's rows")
    for tensor in _inputs(model):
        if tensor.shape and tensor.shape[0] is not None:
            return refuse("fixed-batch", f"input {tensor.name} has a fixed batch size of {tensor.shape[0]}")
    return None


def _inputs(model):
    """Symbolic inputs, where the model has them; a subclassed one has none."""
    try:
        return tf().nest.flatten(model.inputs) if getattr(model, "inputs", None) else []
    except (AttributeError, ValueError):
        return []


def _uncut(data):
    why = parts.why_not_cut(data)
    return refuse("data", why) if why else None


def _gathered(data, rows):
    count = int(parts.rows_of(data))
    places = [index * count // rows for index in range(rows)]
    return parts.rows_at(data, places)


RATES = ("rate", "dropout", "recurrent_dropout")


def _drawing(model):
    """Layers that draw random numbers while training (recurrent cells have a generator, and may not use it)."""
    return [
        layer
        for layer in model._flatten_layers()
        if getattr(layer, "_seed_generators", ()) and any(_rates(layer).values() or [True])
    ]


def _rates(layer):
    return {name: getattr(layer, name) for name in RATES if isinstance(getattr(layer, name, None), (int, float))}


def _can_be_quieted(layer):
    return bool(_rates(layer))


class _Quiet:
    """While it is open, dropout drops nothing: so that a whole and its parts can be compared."""

    def __init__(self, layers):
        self._kept = [(layer, _rates(layer)) for layer in layers]

    def __enter__(self):
        for layer, rates in self._kept:
            for name in rates:
                object.__setattr__(layer, name, 0.0)

    def __exit__(self, *_):
        for layer, rates in self._kept:
            for name, rate in rates.items():
                object.__setattr__(layer, name, rate)


def _normalised(model):
    kind = import_module("keras").layers.BatchNormalization
    return [layer.name for layer in model._flatten_layers() if isinstance(layer, kind) and layer.trainable]


def notes(model):
    """What makes a training in parts another one than that of whole batches: [{kind, layers}]."""
    found = {"batch-statistics": _normalised(model), "random-draws": [layer.name for layer in _drawing(model)]}
    return [{"kind": kind, "layers": layers} for kind, layers in found.items() if layers]


def _needs_whole_predictions(model, found, source):
    """Whether some metric is not known to add up over parts: one that is not Keras' own, or not by samples."""
    base = import_module(source + "trainers.trainer").Trainer
    if type(model).compute_metrics is not base.compute_metrics:
        return True
    metrics = model._compile_metrics.metrics if model._compile_metrics is not None else []
    if metrics and any(not shape for _, shape in found.outputs):
        return True  # predictions without a last axis: Keras' functions average over the batch instead
    return not all(_is_keras_own(metric) for metric in metrics)


def _is_keras_own(metric):
    function = getattr(metric, "_fn", None)
    if hasattr(function, "reduction"):  # a loss object: one number a call
        return False
    homes = [type(metric).__module__, *([getattr(function, "__module__", "") or ""] if function else [])]
    return all(home.split(".")[0] == "keras" for home in homes)


# --- what the numbers tell ----------------------------------------------------------------------------


class _Loss:
    """The terms of a loss on some rows, given the predictions for them."""

    def __init__(self, model, data, y_pred, training, source):
        utils = import_module(source + "trainers.data_adapters.data_adapter_utils")
        x, y, sample_weight = utils.unpack_x_y_sample_weight(data)
        self.rows = int(parts.rows_of(data))
        self.values, self.counts, self.own = [], [], None
        base = import_module(source + "trainers.trainer").Trainer
        if type(model).compute_loss is not base.compute_loss:
            self.own = _number(
                model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
            )
            return
        with terms.Tally(model, lambda index, told, dtype: tf().cast(1.0, dtype)) as tally:
            if model._compile_loss is not None:
                model._compile_loss(y, y_pred, sample_weight)
        self.values = [_number(value) for value in tally.values]
        self.counts = [(kind, None if count is None else _number(count)) for kind, count in map(_or_none, tally.counts)]


class _Pass(_Loss):
    """One eager forward pass: its rows, predictions, and the terms of its loss."""

    def __init__(self, model, data, step, training, source):
        utils = import_module(source + "trainers.data_adapters.data_adapter_utils")
        self.backend = import_module(source + "backend")
        x, _, _ = utils.unpack_x_y_sample_weight(data)
        self.y_pred = model(x, training=training) if model._call_has_training_arg else model(x)
        self.flat = tf().nest.flatten(self.y_pred)
        self.rows = int(parts.rows_of(data))
        self.values, self.counts, self.added, self.own = [], [], [], None
        if step == "predict":
            return
        super().__init__(model, data, self.y_pred, training, source)
        if self.own is None:
            self.added = [_number(model._aggregate_additional_loss(loss)) for loss in terms.regularisation(model)[0]]

    def mask(self, place):
        return self.backend.get_keras_mask(self.flat[place])


def _or_none(told):
    return told if told is not None else (None, None)


def _number(tensor):
    return float(tf().cast(tf().reduce_sum(tensor), tf().float64))


def _compare(whole, pieces, step):
    found = Examined(structure=whole.y_pred)
    for place, leaf in enumerate(whole.flat):
        if not isinstance(leaf, tf().Tensor) or leaf.shape.rank == 0 or int(leaf.shape[0]) != whole.rows:
            if step == "predict":
                return refuse("coupled", "the model's predictions do not have the batch's rows")
            continue
        joined = tf().concat([piece.flat[place] for piece in pieces], 0)
        if not _alike(leaf, joined):
            return refuse("coupled", "the model's predictions for a sample depend on the other samples of its batch")
    # Only the rank is kept of a row: the next batch may be padded to another length.
    found.outputs = [_row(leaf) for leaf in whole.flat if isinstance(leaf, tf().Tensor)]
    for place in range(len(whole.flat)):
        if (mask := whole.mask(place)) is not None:
            found.masks[place] = _row(mask)
    rows = [piece.rows for piece in pieces]
    if whole.own is not None:
        found.own_loss = _kind(whole.own, [piece.own for piece in pieces], rows)
    for index, value in enumerate(whole.values):
        found.kinds.append(_kind_of_loss(index, value, whole, pieces, rows))
    if any(len(piece.added) != len(whole.added) for piece in pieces):
        return refuse("coupled", "the number of losses that layers add depends on the batch")
    found.added = [_kind(value, [piece.added[i] for piece in pieces], rows) for i, value in enumerate(whole.added)]
    if terms.COUPLED in (*found.kinds, *found.added, found.own_loss):
        what = "the loss" if terms.COUPLED in (*found.kinds, found.own_loss) else "a loss that a layer adds"
        return refuse("coupled", f"{what} over the whole batch is neither the sum nor the mean over its parts")
    return found


def _row(tensor):
    return tensor.dtype, [None] * max(0, tensor.shape.rank - 1)


def _look_closer(model, data, step, training, source, found):
    """A loss that Keras does not reduce itself is judged by many rows: what it divides by may be rare.

    Predictions are made a few rows at a time, as they would be in parts; then only the loss is computed on
    all of them, whole and in two parts.
    """
    rows = min(MANY, int(parts.rows_of(data)))
    many = _gathered(data, rows)
    with _Quiet(_drawing(model)):
        pieces = [_Pass(model, parts.cut(many, at, min(ROWS, rows - at)), "predict", training, source)
                  for at in range(0, rows, ROWS)]  # fmt: skip
    flat = [tf().concat(leaves, 0) for leaves in zip(*(piece.flat for piece in pieces))]
    masks = {place: tf().concat([piece.mask(place) for piece in pieces], 0) for place in found.masks}
    cut = max(1, rows // 3)

    def loss(begin, size):
        leaves = [leaf[begin : begin + size] for leaf in flat]
        for place, mask in masks.items():
            pieces[0].backend.set_keras_mask(leaves[place], mask[begin : begin + size])
        y_pred = tf().nest.pack_sequence_as(pieces[0].y_pred, leaves)
        return _Loss(model, parts.cut(many, begin, size), y_pred, training, source)

    whole, halves = loss(0, rows), [loss(0, cut), loss(cut, rows - cut)]
    if found.own_loss is not None:
        found.own_loss = _kind(whole.own, [half.own for half in halves], [cut, rows - cut])
    for index, value in enumerate(whole.values):
        found.kinds[index] = _kind_of_loss(index, value, whole, halves, [cut, rows - cut])
    if terms.COUPLED in (*found.kinds, found.own_loss):
        return refuse("coupled", "the loss over the whole batch is neither the sum nor the mean over its parts")
    return found


def _kind_of_loss(index, value, whole, pieces, rows):
    told, count = whole.counts[index]
    values = [piece.values[index] for piece in pieces]
    if told is None:
        return _kind(value, values, rows)
    counted = {terms.ROWS: (whole.rows, rows), terms.ONE: (1, [1] * len(pieces))}
    total, each = counted.get(told) or (count, [piece.counts[index][1] for piece in pieces])
    return told if _close(value * total, sum(v * n for v, n in zip(values, each))) else terms.COUPLED


def _kind(value, values, rows):
    """Sum, mean, or neither. A value that is zero everywhere tells nothing, and is not guessed at."""
    if value == 0 and not any(values):
        return terms.COUPLED
    if _close(value, sum(values)):
        return terms.ONE
    if _close(value * sum(rows), sum(v * n for v, n in zip(values, rows))):
        return terms.ROWS
    return terms.COUPLED


def _close(a, b):
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1e-6)


def _alike(a, b):
    if not a.dtype.is_floating:
        return bool(tf().reduce_all(tf().equal(a, b)))
    finite = tf().math.is_finite(a)
    if not bool(tf().reduce_all(tf().equal(finite, tf().math.is_finite(b)))):
        return False
    # Half precision rounds differently for other shapes.
    tolerance = TOLERANCE if a.dtype in (tf().float32, tf().float64) else 2e-2
    a, b = (tf().where(finite, tf().cast(t, tf().float32), 0.0) for t in (a, b))
    scale = tf().maximum(tf().reduce_max(tf().abs(a)), 1e-6)
    return bool(tf().reduce_max(tf().abs(a - b)) <= tolerance * scale)
