"""Exact gradient accumulation for a hand-written step, compiled or not."""

from . import parts
from .parts import tf

_MEAN, _SUM = "mean", "sum"


class MicroBatch:
    """The number of rows computed at once, shared by all of a program's steps. 0: the whole batch."""

    def __init__(self):
        self._variable = None

    @property
    def variable(self):
        if self._variable is None:
            with tf().init_scope(), tf().device("CPU:0"):
                self._variable = tf().Variable(0, dtype=tf().int32, trainable=False, name="keepfit_micro_batch")
        return self._variable

    def set(self, rows):
        with tf().init_scope():  # now, also where a graph is being traced
            self.variable.assign(int(rows))

    def get(self):
        return int(self.variable.numpy())


MICRO_BATCH = MicroBatch()


def accumulate(loss_of, variables, *batch, micro_batch=None, reduction=_MEAN):
    """See `keepfit.accumulate`."""
    if reduction not in (_MEAN, _SUM):
        raise ValueError(f"reduction: 'mean' or 'sum' was expected; received {reduction!r}")
    if micro_batch is not None and (not isinstance(micro_batch, int) or micro_batch < 1):
        raise ValueError(f"micro_batch: a whole number from 1 was expected; received {micro_batch!r}")
    # The user's function is converted by AutoGraph where theirs is; ours needs no conversion.
    convert = tf().__internal__.autograph
    loss_of = convert.tf_convert(loss_of, convert.control_status_ctx())
    return tf().autograph.experimental.do_not_convert(_accumulate)(
        loss_of, list(variables), batch, micro_batch, reduction
    )


def _accumulate(loss_of, variables, batch, micro_batch, reduction):
    rows = parts.rows_of(batch)
    wanted = micro_batch if micro_batch is not None else MICRO_BATCH.variable
    wanted = tf().where(tf().equal(wanted, 0), tf().maximum(rows, 1), wanted)
    count, bounds = parts.division(rows, wanted)

    def one(part, size):
        with tf().GradientTape() as tape:
            loss, weight = _weighed(loss_of(*part), size, reduction)
            scaled = loss * tf().cast(weight, loss.dtype)
        return scaled, tf().cast(weight, tf().float32), tape.gradient(scaled, variables)

    kinds = None if tf().executing_eagerly() else _kinds(one, batch)

    def body(index, carry):
        total, weights, sums = carry
        begin, size = bounds(index)
        loss, weight, gradients = one(parts.cut(batch, begin, size), size)
        known = kinds
        if sums is None:
            sums = parts.nothing([parts.kind_of(g) for g in gradients], variables, count)
        known = known or [parts.kind_of(g) for g in gradients]
        return total + tf().cast(loss, tf().float32), weights + weight, parts.add(known, sums, gradients, index)

    zero = tf().constant(0.0)
    start = None if kinds is None else parts.nothing(kinds, variables, count)
    loss, weights, sums = parts.loop(count, body, (zero, zero, start))
    if kinds is None:
        kinds = [_kind_of_sum(total) for total in sums]
    whole = tf().constant(1.0) if reduction == _SUM else weights
    gradients = [_divided(gradient, whole) for gradient in parts.gradients_of(kinds, sums, variables)]
    return tf().math.divide_no_nan(loss, whole), gradients


def _weighed(result, size, reduction):
    if isinstance(result, (tuple, list)):
        if len(result) != 2:
            raise ValueError(f"the loss function: a loss or (loss, count) was expected; received {len(result)} values")
        return result
    if result.shape.rank != 0:
        raise ValueError(
            f"the loss function: a scalar was expected; received a tensor of shape {tuple(result.shape)} "
            "(return its mean, or its sum with reduction='sum')"
        )
    return result, tf().constant(1.0) if reduction == _SUM else size


def _kinds(one, batch):
    """What kinds of gradients there will be: a loop in a graph has to know before it begins."""
    with tf().__internal__.FuncGraph("keepfit_kinds").as_default():
        part = tf().nest.map_structure(
            lambda leaf: None if leaf is None else tf().compat.v1.placeholder(leaf.dtype, [None, *leaf.shape[1:]]),
            batch,
        )
        _, _, gradients = one(part, parts.rows_of(part))
        return [parts.kind_of(gradient) for gradient in gradients]


def _kind_of_sum(total):
    if isinstance(total, tuple):
        return parts.SPARSE if total else parts.NONE
    return parts.DENSE


def _divided(gradient, whole):
    if gradient is None:
        return None
    if isinstance(gradient, tf().IndexedSlices):
        values = tf().math.divide_no_nan(gradient.values, tf().cast(whole, gradient.values.dtype))
        return tf().IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return tf().math.divide_no_nan(gradient, tf().cast(whole, gradient.dtype))
