"""Whether a step's numbers are finite: of its loss and gradients, by ordinary operations, inside the compiled step."""

from .parts import tf

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def graph():
    """The graph that is being traced; None where operations run at once."""
    return None if tf().executing_eagerly() else tf().compat.v1.get_default_graph()


def squares(gradients):
    """Half the squared norm of every gradient, as one float32 vector: what is not finite shows, and the norms do.

    One pass over each. A norm beyond 1e19 overflows; a gradient that large is as good as infinite.
    """
    found = []
    for gradient in gradients:
        if gradient is None:
            continue
        values = gradient.values if isinstance(gradient, tf().IndexedSlices) else gradient
        if values.dtype.name in _FLOATS:
            found.append(tf().cast(tf().nn.l2_loss(values), tf().float32))
    return tf().stack(found) if found else tf().zeros((0,), tf().float32)


def all_finite(values):
    """Whether all of these (tensors of any shape) are finite: a bool tensor."""
    checks = [
        tf().reduce_all(tf().math.is_finite(value)) if value.shape.rank != 0 else tf().math.is_finite(value)
        for value in values
        if value.dtype.name in _FLOATS
    ]
    if not checks:
        return tf().constant(True)
    return checks[0] if len(checks) == 1 else tf().reduce_all(tf().stack(checks))


def replicas(model=None):
    """How many devices train at once: of this place in the program, or of a model, whose `fit` is outside of its scope.

    Where gradients are summed over several, a condition around that would not be allowed.
    """
    strategy = getattr(model, "distribute_strategy", None) or tf().distribute.get_strategy()
    return strategy.num_replicas_in_sync
