"""The steps of a Keras model, run in parts: the same results as the whole batch in a part of its memory.

    train_step    gradients of the parts are summed, each with its share, and applied once
    test_step     losses and metrics of the parts are summed
    predict_step  predictions of the parts are concatenated

How many parts is a variable the compiled step reads, so changing it costs no retrace.
"""

from importlib import import_module

from ..tensorflow import parts
from ..tensorflow.parts import tf
from . import terms

TRIAL_PARTS = 2  # one part alone does not show what the allocator keeps of it while the next is computed


class Split:
    """How one model's batches are split. Made once a model, read by its compiled steps."""

    def __init__(self, model, source, gate=None):
        self.gate = gate  # of the numbers, where there is one
        self.examined = {}  # by step: train, test, predict; only these are split
        self.traces = 0  # how often its training step was traced (or run, where it is eager)
        self.gradient_kinds = None  # of every trainable weight; None: not known before the first part
        self.seen_kinds = None  # what the last part had
        self.compiled_parts = False  # the user asked for XLA: each part is compiled, the loop around them is not
        self.keras = _Keras(source)
        self.state = State(model, source)
        with tf().init_scope(), tf().device("CPU:0"):
            self.micro = tf().Variable(1, dtype=tf().int32, trainable=False, name="keepfit_micro_batch")
            # While it is set, only the first parts are computed and nothing is applied.
            self.trial = tf().Variable(False, dtype=tf().bool, trainable=False, name="keepfit_trial")

    def rows(self, rows):
        """How many of the batch's rows this step computes."""
        return tf().where(self.trial, tf().minimum(rows, TRIAL_PARTS * self.micro), rows)

    def part(self, function):
        return tf().function(function, jit_compile=True, reduce_retracing=True) if self.compiled_parts else function


class _Keras:
    """The few functions of Keras' own that its steps are written in."""

    def __init__(self, source):
        self.unpack = import_module(source + "trainers.data_adapters.data_adapter_utils").unpack_x_y_sample_weight
        backend = import_module(source + "backend")
        self.get_mask, self.set_mask = backend.get_keras_mask, backend.set_keras_mask


class State:
    """What a forward pass changes in a model besides its metrics: the statistics of BatchNormalization, and
    whatever else layers keep (counters, moving averages).

    Every part starts from the state before the step, and the step ends in the mean of where the parts went,
    each by its share: for a moving mean that is the very update of the whole batch. For a moving *variance*
    the spread between the parts' means is added, so that it is the whole batch's too.
    """

    def __init__(self, model, source):
        normalization = import_module(source + "layers.normalization.batch_normalization").BatchNormalization
        layers = list(model._flatten_layers())
        seeds = {id(generator.state) for layer in layers for generator in getattr(layer, "_seed_generators", ())}
        self.variables, known = [], set(seeds)
        for layer in layers:
            for variable in layer._non_trainable_variables:
                if id(variable) not in known:
                    known.add(id(variable))
                    self.variables.append(variable)
        at = {id(variable): index for index, variable in enumerate(self.variables)}
        self._pairs = [  # (index of the mean, index of the variance, momentum)
            (at[id(layer.moving_mean)], at[id(layer.moving_variance)], float(layer.momentum))
            for layer in layers
            if isinstance(layer, normalization) and id(getattr(layer, "moving_mean", None)) in at
            if layer.trainable and layer.momentum < 1
        ]

    def before(self):
        return [tf().identity(variable.value) for variable in self.variables]

    def nothing(self, before):
        squares = [tf().zeros_like(before[mean]) for mean, _, _ in self._pairs]
        return [_nothing_like(value) for value in before], squares

    def reset(self, before):
        for variable, value in zip(self.variables, before):
            variable.assign(value)

    def add(self, sums, before, share):
        totals, squares = sums
        now = [tf().identity(variable.value) for variable in self.variables]
        seen = [(now[mean] - momentum * before[mean]) / (1 - momentum) for mean, _, momentum in self._pairs]
        return (
            [_weighed(total, value, share) for total, value in zip(totals, now)],
            [total + tf().cast(share, mean.dtype) * mean * mean for total, mean in zip(squares, seen)],
        )

    def settle(self, sums, before, trial):
        totals, squares = sums
        totals = list(totals)
        for square, (mean, variance, momentum) in zip(squares, self._pairs):
            whole = (totals[mean] - momentum * before[mean]) / (1 - momentum)
            spread = tf().maximum(square - whole * whole, 0)
            totals[variance] = totals[variance] + (1 - momentum) * spread
        for variable, value, old in zip(self.variables, totals, before):
            variable.assign(tf().where(trial, old, value))


def _nothing_like(value):
    return tf().zeros_like(value) if value.dtype.is_floating else value


def _weighed(total, value, share):
    """Numbers are averaged; a counter or a flag is as the last part left it."""
    return total + tf().cast(share, value.dtype) * value if value.dtype.is_floating else value


# --- the three steps --------------------------------------------------------------------------------


def train_step(model, split, data):
    weights = model.trainable_weights
    examined = split.examined["train"]
    split.traces += 1

    def gradients_too(part, weigh, share):
        with tf().GradientTape() as tape:
            loss, values, y_pred = _forward(model, split, examined, part, weigh, share, training=True)
            scaled = loss if model.optimizer is None else model.optimizer.scale_loss(loss)
        return loss, values, _kept(split, examined, y_pred), tape.gradient(scaled, weights) if weights else []

    rows, loss, values, outputs, summed = _over_parts(model, split, examined, data, gradients_too, training=True)
    gradients = parts.gradients_of(split.gradient_kinds, summed, weights) if weights else []
    if weights and split.gate is not None and split.gate.seen is not None:
        split.gate.seen.judge(model.optimizer, gradients, weights, [loss])

    def finish():
        _track(model, split, data, rows, loss, values)
        if weights:
            model.optimizer.apply_gradients(zip(gradients, weights))

    _unless_trial(split, finish)
    return _results(model, split, examined, data, rows, outputs)


def test_step(model, split, data):
    examined = split.examined["test"]

    def forward(part, weigh, share):
        loss, values, y_pred = _forward(model, split, examined, part, weigh, share, training=False)
        return loss, values, _kept(split, examined, y_pred), []

    rows, loss, values, outputs, _ = _over_parts(model, split, examined, data, forward, training=False)
    _unless_trial(split, lambda: _track(model, split, data, rows, loss, values))
    return _results(model, split, examined, data, rows, outputs)


def predict_step(model, split, data):
    examined = split.examined["predict"]

    def forward(part):
        return tf().nest.flatten(_called(model, split.keras.unpack(part)[0], training=False))

    forward = split.part(forward)
    rows = split.rows(parts.rows_of(data))
    count, bounds = parts.division(rows, split.micro)
    before = split.state.before()

    def body(index, carry):
        arrays, state = carry
        begin, size = bounds(index)
        split.state.reset(before)
        arrays = _written(arrays, index, forward(parts.cut(data, begin, size)))
        return arrays, split.state.add(state, before, parts.share(size, rows))

    start = (_arrays(examined.outputs, count), split.state.nothing(before))
    outputs, state = parts.loop(count, body, start)
    split.state.settle(state, before, split.trial)
    return tf().nest.pack_sequence_as(examined.structure, [array.concat() for array in outputs])


def _over_parts(model, split, examined, data, part_step, training):
    """The loop that training and testing share: (rows, loss, losses of the outputs, outputs, sums of gradients)."""
    rows = split.rows(parts.rows_of(data))
    count, bounds = parts.division(rows, split.micro)
    before = split.state.before()
    totals = _whole_counts(model, split, examined, data, count, bounds, before)
    losses = len(examined.kinds)

    def weigh(share):
        return lambda index, told, dtype: tf().cast(_factor(examined.kinds, totals, index, told, share), dtype)

    def one(part, share):
        return part_step(part, weigh(share), share)

    one = split.part(one)

    def body(index, carry):
        loss, values, state, arrays, sums = carry
        begin, size = bounds(index)
        part, share = parts.cut(data, begin, size), parts.share(size, rows)
        split.state.reset(before)
        part_loss, part_values, outputs, gradients = one(part, share)
        if training:
            split.seen_kinds = [parts.kind_of(gradient) for gradient in gradients]
        if sums is None:  # eager: only now the kinds of gradients are known
            split.gradient_kinds = split.seen_kinds
            sums = parts.nothing(split.gradient_kinds, model.trainable_weights, count)
        return (
            loss + tf().cast(part_loss, tf().float32),
            [total + tf().cast(value, tf().float32) for total, value in zip(values, part_values)],
            split.state.add(state, before, share),
            _written(arrays, index, outputs),
            parts.add(split.gradient_kinds, sums, gradients, index) if training else sums,
        )

    sums = ()
    if training:
        weights = model.trainable_weights
        if split.gradient_kinds is None and not tf().executing_eagerly():  # a compiled loop has to suppose something
            split.gradient_kinds = [parts.DENSE] * len(weights)
        sums = None if split.gradient_kinds is None else parts.nothing(split.gradient_kinds, weights, count)
    zero = tf().constant(0.0)
    state = split.state.nothing(before)
    arrays = _arrays([*examined.outputs, *examined.masks.values()], count) if examined.gathers else []
    loss, values, state, arrays, sums = parts.loop(count, body, (zero, [zero] * losses, state, arrays, sums))
    split.state.settle(state, before, split.trial)
    return rows, loss, values, [array.concat() for array in arrays], sums


def _forward(model, split, examined, part, weigh, share, training):
    """One part's loss, each term with its weight in the whole batch; its metrics; its predictions."""
    x, y, sample_weight = split.keras.unpack(part)
    y_pred = _called(model, x, training)
    if examined.own_loss is not None:  # the user's compute_loss: one term, as a whole
        loss = model._compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
        loss = loss * tf().cast(_plain_factor(examined.own_loss, share), loss.dtype)
        values = []
    else:
        with terms.Tally(model, weigh) as tally:
            compiled = model._compile_loss
            loss = compiled(y, y_pred, sample_weight) if compiled is not None else None
        values = tally.values
        added, of_weights = terms.regularisation(model)
        if len(added) != len(examined.added):
            raise ValueError(f"layers added {len(added)} losses; {len(examined.added)} were looked at")
        for term, kind in [*zip(added, examined.added), *((term, terms.ROWS) for term in of_weights)]:
            value = model._aggregate_additional_loss(term)
            value = value * tf().cast(_plain_factor(kind, share), value.dtype)
            loss = value if loss is None else loss + tf().cast(value, loss.dtype)
    if not examined.gathers and model._compile_metrics is not None:
        model._compile_metrics.update_state(y, y_pred, sample_weight)
    return loss, values, y_pred


def _called(model, x, training):
    return model(x, training=training) if model._call_has_training_arg else model(x)


def _plain_factor(kind, share):
    return share if kind == terms.ROWS else 1.0


def _factor(kinds, totals, index, told, share):
    """The weight of one output's loss on one part."""
    kind = kinds[index]
    if kind == terms.VALID and told is not None:
        return tf().math.divide_no_nan(told[1], totals[index])
    return _plain_factor(kind, share)


def _whole_counts(model, split, examined, data, count, bounds, before):
    """For losses that are divided by what is valid in the *whole* batch: how much that is.

    Masks follow from the inputs: of this extra forward pass TensorFlow keeps only what they depend on.
    """
    kinds = examined.kinds
    if terms.VALID not in kinds:
        return None

    def counts(part):
        x, y, sample_weight = split.keras.unpack(part)
        y_pred = _called(model, x, training=False)
        with terms.Tally(model, lambda index, told, dtype: tf().cast(1.0, dtype)) as tally:
            model._compile_loss(y, y_pred, sample_weight)
        return [told[1] if told is not None and told[0] == terms.VALID else tf().constant(0.0) for told in tally.counts]

    counts = split.part(counts)

    def body(index, totals):
        split.state.reset(before)  # a layer's own state must not see this pass
        found = counts(parts.cut(data, *bounds(index)))
        return [total + value for total, value in zip(totals, found)]

    return parts.loop(count, body, [tf().constant(0.0)] * len(kinds))


def _track(model, split, data, rows, loss, values):
    """Keras' own trackers, once a batch, as Keras updates them."""
    model._loss_tracker.update_state(loss, sample_weight=rows)
    trackers = model._compile_loss.metrics if model._compile_loss is not None else []
    first = parts.leaves(split.keras.unpack(data)[0])[0]
    for tracker, value in zip(trackers, values):
        tracker.update_state(value, sample_weight=first.shape[0])


def _results(model, split, examined, data, rows, outputs):
    if not examined.gathers:
        return model.get_metrics_result()
    # Metrics that are not known to add up get the whole batch's predictions, as Keras would give them.
    x, y, sample_weight = split.keras.unpack(parts.cut(data, 0, rows))
    predictions, masks = outputs[: len(examined.outputs)], outputs[len(examined.outputs) :]
    for place, mask in zip(examined.masks, masks):
        split.keras.set_mask(predictions[place], mask)
    y_pred = tf().nest.pack_sequence_as(examined.structure, predictions)
    return model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)


def _unless_trial(split, act):
    def acting():
        act()
        return True

    tf().cond(split.trial, lambda: False, acting)


# --- predictions that are kept whole -----------------------------------------------------------------


def _kept(split, examined, y_pred):
    """What of a part's predictions is to be kept: the leaves, then the masks some of them carry."""
    if not examined.gathers:
        return []
    flat = tf().nest.flatten(y_pred)
    return [*flat, *(split.keras.get_mask(flat[place]) for place in examined.masks)]


def _arrays(specs, count):
    return [parts.array(dtype, shape, count) for dtype, shape in specs]


def _written(arrays, index, values):
    return [array.write(index, value) for array, value in zip(arrays, values)]
