"""What labels, loss and last layer are to each other, for a model of one output and one loss."""

from importlib import import_module

from ..tensorflow.parts import np, tf


def classes_of(model, source):
    """How many classes there are, where labels are their numbers; 0 where they are not."""
    shape, loss = output_shape(model), _loss(model, source)
    if shape is None or loss is None or not _name(loss).startswith("sparse_categorical"):
        return 0
    return int(shape[-1])


def counted(labels, classes):
    """Inside a graph: how often each class comes. Numbers that are no class (ignored, or wrong) are not counted."""
    numbers = tf().cast(tf().reshape(labels, [-1]), tf().int32)
    numbers = tf().where(numbers < classes, numbers, -1)  # negative ones are dropped
    return tf().math.unsorted_segment_sum(tf().ones_like(numbers), numbers, classes)


def _loss(model, source):
    loss = model.loss
    if isinstance(loss, (list, tuple, dict)) or loss is None:
        return None
    return import_module(source + "losses").get(loss)


def _name(loss):
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", type(loss).__name__))


def facts_of(model, labels, source):
    """What labels and loss are, for a model of one output and one loss; None for any other."""
    shape, loss = output_shape(model), _loss(model, source)
    if shape is None or loss is None:
        return None
    options = getattr(loss, "_fn_kwargs", {})
    wanted = options.get("ignore_class", getattr(loss, "ignore_class", None))
    flat = labels.reshape(len(labels), -1) if len(labels) else labels.reshape(0, 1)
    if not flat.size:
        return None
    kept = flat if wanted is None else np().where(flat == wanted, 0, flat)
    worst = int(np().argmax(kept.max(axis=1))) if kept.min() >= 0 else int(np().argmin(kept.min(axis=1)))
    whole = bool(labels.dtype.kind in "iub" or (flat[:4096] == np().floor(flat[:4096])).all())
    facts = {
        "loss": _name(loss), "logits": bool(options.get("from_logits", False)), "units": int(shape[-1]),
        "activation": _ends_in(model), "low": float(kept.min()), "high": float(kept.max()), "integer": whole,
        "shape": [int(d) for d in labels.shape[1:]], "rank": len(shape), "row": worst, "rows": len(labels),
    }  # fmt: skip
    last = flat[:4096]
    one_hot = last.shape[1] > 1 and bool((last.sum(axis=1) == 1).all()) and bool(((last == 0) | (last == 1)).all())
    facts["one_hot"] = one_hot
    return facts


def output_shape(model):
    """Of the only output; None where there are several, or where it is not known."""
    try:
        shape = model.output_shape
    except AttributeError:  # built by its first batch: then the last layer tells how many outputs there are
        layers = [
            layer for layer in getattr(model, "layers", ()) if type(layer).__name__ not in ("Activation", "Softmax")
        ]
        units = getattr(layers[-1], "units", None) if layers else None
        return (None, units) if units else None
    whole = isinstance(shape, tuple) and shape and not isinstance(shape[0], (tuple, list)) and shape[-1] is not None
    return shape if whole else None


def _ends_in(model):
    """The activation a model ends in: its name, `linear`, or None where it is not known."""
    layers = getattr(model, "_output_layers", None) or getattr(model, "layers", None)
    layer = layers[-1] if layers else None
    if layer is None or not type(layer).__module__.startswith("keras."):
        return None
    if type(layer).__name__ == "Softmax":
        return "softmax"
    if hasattr(layer, "cell") or not hasattr(layer, "activation"):
        return None
    return getattr(layer.activation, "__name__", None)
