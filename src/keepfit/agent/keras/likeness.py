"""Is this the training that was saved? What model and data look like, and in words where they differ.

Of the data not only shapes are compared but contents, by samples: a split into training and validation that came
out differently would go unnoticed otherwise, and mix the two.
"""

import hashlib

from ..tensorflow.parts import np

SAMPLES = 64  # rows of an array that are looked at, spread over all of it
LONGEST = 1 << 20  # bytes of them


def of_model(model):
    """A line a variable and a layer: what a saved state is put into."""
    optimizer = getattr(model, "optimizer", None)
    return {
        "class": type(model).__name__,
        "optimizer": type(optimizer).__name__ if optimizer is not None else None,
        "layers": [type(layer).__name__ for layer in model._flatten_layers(include_self=False)],
        "weights": [[v.path, list(v.shape), str(v.dtype)] for v in model.weights],
    }


def model_difference(saved, found):
    """In words; None where there is none. Names do not count: they are made up at every start."""
    for what in ("class", "optimizer"):
        if saved[what] != found[what]:
            return f"{what}: {found[what]} where {saved[what]} was saved"
    if saved["layers"] != found["layers"]:
        for number, (old, new) in enumerate(zip(saved["layers"], found["layers"])):
            if old != new:
                return f"layer {number + 1}: {new} where {old} was saved"
        return f"{len(found['layers'])} layers where {len(saved['layers'])} were saved"
    if len(saved["weights"]) != len(found["weights"]):
        return f"{len(found['weights'])} weights where {len(saved['weights'])} were saved"
    for (name, shape, dtype), (new_name, new_shape, new_dtype) in zip(saved["weights"], found["weights"]):
        if (shape, dtype) != (new_shape, new_dtype):
            return f"{new_name}: {tuple(new_shape)} {new_dtype} where {tuple(shape)} {dtype} was saved ({name})"
    return None


def of_data(owner):
    """What the batches come from."""
    adapter = owner.data_adapter
    found = {
        "source": type(adapter).__name__,
        "elements": str(getattr(owner._distributed_dataset, "element_spec", None)),
        "batches": _whole(adapter.num_batches),
        "steps": _whole(owner.steps_per_epoch),
        "at_once": _whole(owner.steps_per_execution),
    }
    contents = _contents(adapter)
    if contents is not None:
        found["contents"] = contents
    return found


def data_difference(saved, found):
    words = {
        "source": "the source of the batches",
        "elements": "the shape of the batches",
        "batches": "the number of batches",
        "steps": "steps_per_epoch",
        "at_once": "steps_per_execution",
    }
    for what, name in words.items():
        if saved.get(what) != found.get(what):
            return f"{name}: {found.get(what)} where {saved.get(what)} was saved"
    if saved.get("contents") and found.get("contents") and saved["contents"] != found["contents"]:
        return "the contents of the data are not those that were trained on (an unseeded split or shuffle?)"
    return None


def _whole(number):
    return None if number is None else int(number)


def _contents(adapter):
    """A checksum of samples of the arrays behind the batches; None where there are none to look at."""
    leaves = []
    inputs = getattr(adapter, "_inputs", None)
    if inputs is not None:
        leaves = _flat(inputs)
    else:
        stage = getattr(adapter, "_dataset", None)
        for _ in range(64):
            if stage is None:
                break
            if (tensors := getattr(stage, "_tensors", None)) is not None:
                leaves = list(tensors)
                break
            stage = getattr(stage, "_input_dataset", None)
    digest, looked = hashlib.sha256(), False
    for leaf in leaves:
        sample = _sample(leaf)
        if sample is not None:
            digest.update(f"{sample.dtype}{tuple(leaf.shape)}".encode())
            digest.update(np().ascontiguousarray(sample).tobytes()[:LONGEST])
            looked = True
    return digest.hexdigest() if looked else None


def _sample(leaf):
    shape = getattr(leaf, "shape", None)
    if shape is None or not len(shape) or not shape[0]:
        return None
    count = int(shape[0])
    rows = sorted({int(i) for i in np().linspace(0, count - 1, min(SAMPLES, count))})
    try:
        picked = [np().asarray(leaf[i]) for i in rows]
        return np().stack(picked) if picked[0].dtype.kind in "biufSU" else None
    except Exception:  # sparse, ragged, or something of the user's own
        return None


def _flat(structure):
    if isinstance(structure, dict):
        return [leaf for item in structure.values() for leaf in _flat(item)]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in _flat(item)]
    return [] if structure is None else [structure]
