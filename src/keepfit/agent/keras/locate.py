"""Which sample of the data a row of a batch is: by its contents, looked for in the arrays the batches come from.

Shuffles hide the position; the bits do not. Where no array holds the row as it came (it was augmented, or read from
files), there is no index, and the position in the epoch is what can be told.
"""

from ..tensorflow.buffers import stages
from ..tensorflow.parts import np, tf

PROBES = 8  # entries of a row that are compared before the whole of it is
MOST = 4  # equal rows that are told


def locate(owner, x, rows):
    """{row of the batch: [indices in the data]} for those that are found; `x` is the batch's input."""
    leaf = next((leaf for leaf in tf().nest.flatten(x) if hasattr(leaf, "numpy") and len(leaf.shape)), None)
    if leaf is None or owner is None:
        return {}
    values = leaf.numpy()
    for array in _arrays(owner.data_adapter):
        if tuple(array.shape[1:]) != values.shape[1:] or array.dtype.kind != values.dtype.kind:
            continue
        found = {row: _rows_like(array, values[row]) for row in rows}
        if any(found.values()):
            return {row: indices for row, indices in found.items() if indices}
    return {}


def keeps_order(owner):
    """Whether a tf.data pipeline gives its elements in their order: then a place in the epoch tells which it is."""
    dataset = getattr(owner.data_adapter, "_dataset", None) if owner is not None else None
    if not hasattr(dataset, "_inputs"):
        return False
    kinds = " ".join(type(stage).__name__ for stage in stages(dataset))
    return "Shuffle" not in kinds and "Interleave" not in kinds


def _rows_like(array, row):
    """Indices of the rows that are this one, bit for bit (as the type of the batch has them)."""
    wanted = np().ascontiguousarray(row).reshape(-1)
    flat = array.reshape(len(array), -1)
    if not wanted.size:
        return []
    places = np().unique(np().linspace(0, wanted.size - 1, min(PROBES, wanted.size)).astype(int))
    candidates = np().arange(len(flat))
    for place in places:
        column = flat[candidates, place].astype(wanted.dtype)
        candidates = candidates[_same(column, wanted[place])]
        if not len(candidates):
            return []
    return [int(i) for i in candidates if _same(flat[i].astype(wanted.dtype), wanted).all()][:MOST]


def _same(values, wanted):
    """Equal, or both no number."""
    return (values == wanted) | ((values != values) & (wanted != wanted))


def _arrays(adapter):
    """Whatever arrays an adapter's batches are taken from."""
    found = list(tf().nest.flatten(getattr(adapter, "_inputs", None) or []))
    dataset = getattr(adapter, "_dataset", None)
    if hasattr(dataset, "_inputs"):
        found += [tensor for stage in stages(dataset) for tensor in getattr(stage, "_tensors", None) or ()]
    source = getattr(adapter, "py_dataset", None)
    found += [value for value in vars(source).values() if hasattr(value, "dtype")] if source is not None else []
    for leaf in found:
        try:
            array = np().asarray(leaf)
        except Exception:  # sparse, ragged, or a class of the user's own
            continue
        if array.ndim and array.dtype.kind in "biuf":
            yield array
