"""Who made it: a step that was not finite is run once more, operation by operation, to see where it began.

The weights are untouched, the seeds are those of the step, and nothing is applied: the replay sees what the step
saw. The rows that are bad by themselves are the samples; the first operation with a non-finite output is the
culprit, unless samples that are well make the same there: what a mask takes away again (`where`, a softmax over
-inf) did no harm.
"""

import collections
import contextlib
from importlib import import_module

from ..tensorflow import parts, snapshot, variables
from ..tensorflow.parts import np, tf
from .decision import Unchanged

MOST = 16  # samples that are named
TRIES = 64  # replays of parts of a batch, at most, to find them
SPOT = 3  # samples that are tried alone before an operation is believed that shows a whole batch to be bad
_FLOATS = ("float16", "bfloat16", "float32", "float64")


class Blame:
    def __init__(self, gate, model, source, at_once=0, step="train"):
        """`at_once`: rows that fit the memory (0: all)."""
        self._gate = gate
        self._model = model
        self._source = source
        self._at_once = at_once
        self._step = step
        self._tries = 0

    def find(self, data):
        """{phase, layer, op, rows, entry, …}: what is known of the culprit. `phase` is unknown where nothing shows."""
        if parts.why_not_cut(data) is not None:
            return self._whole(data)
        rows, found, bad = int(parts.rows_of(data)), None, []
        for start in range(0, rows, self._at_once or rows):
            size = min(self._at_once or rows, rows - start)
            part = parts.cut(data, start, size)
            if found is None:
                found = self._look(part)
                here = found["rows"] if found is not None else []
                all_bad = len(here) == size > 1
            elif all_bad:
                here = range(size) if self._replay(part, traced=False).is_bad else ()
            else:
                here = self._halved(part, 0, size)
            bad += [start + row for row in here]
        if found is None:
            return {"phase": "unknown", "layer": None, "op": None, "rows": [], "every": False}
        return {**found, "rows": bad[:MOST], "every": len(bad) == rows > 1}

    def _whole(self, data):
        """Of a batch that cannot be cut (sparse tensors): the operation alone."""
        first = self._replay(data, trail=Trail(0)).first or {"phase": "unknown", "layer": None, "op": None}
        return {"phase": first["phase"], "layer": first["layer"], "op": first["op"], "rows": [], "every": False}

    def _look(self, part):
        if self._at_once and not self._replay(part, traced=False).is_bad:  # another part of the batch is
            return None
        rows = int(parts.rows_of(part))
        first = self._replay(part).first
        if first is not None and first["op"] == "ReadVariableOp":
            return {"phase": "weights", "layer": first["layer"], "op": None, "rows": list(range(rows))}
        shown = list(range(rows)) if first is None or first["rows"] is None else first["rows"]
        bad = self._proven(part, shown)
        given = self._given(part, bad) if first is not None and first["taken_in"] else None
        if given is None:  # others may be bad too: their trouble began at a later operation
            others = sorted({*range(rows)} - {*shown})
            bad = sorted([*bad, *self._alone(part, others)]) or shown
        well = self._well(part, shown, bad)
        if first is not None and well is not None:
            first = self._replay(parts.rows_at(part, bad), trail=Trail(len(bad), harmless=well.met)).first
            given = self._given(part, bad) if first is not None and first["taken_in"] else None
        if first is None:  # nothing shows, or only the sum of many finite numbers is not
            if not self._replay(part, traced=False).is_bad:
                return None
            return {"phase": "backward", "layer": None, "op": None, "rows": bad}
        found = {"phase": first["phase"], "layer": first["layer"], "op": first["op"], "rows": bad}
        if given is not None:
            found.update(phase=given["phase"], op=None, rows=[bad[row] for row in given["rows"]])
            found.update({name: given[name] for name in ("entry", "name", "value")})
        return found

    def _well(self, part, shown, bad):
        """The trail of samples that an operation has shown and that are well all the same; None where there are none.

        That they are is tried: of many samples only some were, and one that is bad would clear the culprit.
        """
        cleared = sorted({*shown} - {*bad})[:MOST]
        if not cleared or self._replay(parts.rows_at(part, cleared), traced=False).is_bad:
            return None
        return self._replay(parts.rows_at(part, cleared), trail=Trail(0, goes_on=True))

    def _given(self, part, bad):
        """What is not finite in the batch itself, in the rows that are bad; None where nothing is."""
        if not bad:
            return None
        entries = _entries(
            parts.rows_at(part, bad), import_module(self._source + "trainers.data_adapters.data_adapter_utils")
        )
        return next((entry for entry in entries if entry["rows"]), None)

    def _proven(self, part, shown):
        """Of the rows that an operation has shown, those that are bad by themselves."""
        few = shown[:: max(1, len(shown) // SPOT)][:SPOT]
        if len(shown) > 2 * SPOT and all(self._replay(parts.rows_at(part, [row]), traced=False).is_bad for row in few):
            return shown
        return self._alone(part, shown)

    def _alone(self, part, places):
        if not places:
            return []
        return [places[row] for row in self._halved(parts.rows_at(part, places), 0, len(places))]

    def _halved(self, part, start, size):
        if self._tries >= TRIES:
            return []
        self._tries += 1
        if not self._replay(parts.cut(part, start, size), traced=False).is_bad:
            return []
        if size == 1:
            return [start]
        half = size // 2
        return self._halved(part, start, half) + self._halved(part, start + half, size - half)

    def _replay(self, part, traced=True, trail=None):
        model, trail = self._model, trail or Trail(int(parts.rows_of(part)))
        step = getattr(model, f"{self._step}_step")
        with Unchanged(model), Untrained(model), self._gate.replaying(trail), contextlib.ExitStack() as patches:
            if traced:
                _follow(trail, self._source, patches)
            try:
                step(part)
            except Exception as error:
                trail.error = error
        return trail


class Untrained:
    """A function of the user's that was compiled long ago may apply gradients all the same: that is taken back."""

    def __init__(self, model):
        optimizers = [optimizer for _, optimizer in snapshot.optimizers_of(model) if optimizer.built]
        self._counts = [optimizer.iterations for optimizer in optimizers]
        self._variables = [*model.trainable_variables, *(v for optimizer in optimizers for v in optimizer.variables)]

    def __enter__(self):
        self._count = [int(count.numpy()) for count in self._counts]
        self._values = [variables.read(variable) for variable in self._variables]

    def __exit__(self, *_):
        if self._count != [int(count.numpy()) for count in self._counts]:
            for variable, value in zip(self._variables, self._values):
                variable.assign(value)


class Found(Exception):
    """The rest of a replay would tell nothing more."""


class Trail:
    """What a replay shows: called by TensorFlow after every operation, and by the gate instead of the optimizer."""

    def __init__(self, rows, harmless=(), goes_on=False):
        """`harmless`: places that are passed over; `goes_on`: every place is wanted, not only the first."""
        self.phase = "forward"
        self.met = set()  # places of operations that were not finite
        self.layers = []  # the innermost is the last
        self.first = None  # the first operation that was not finite
        self.error = None
        self._rows = rows
        self._made = {}  # id of a tensor -> the layer that made it
        self._bad = False
        self._harmless = harmless
        self._goes_on = goes_on
        self._count = collections.Counter()

    @property
    def is_bad(self):
        return self._bad or self.first is not None

    def gradients(self, gradients, trained):
        for gradient in gradients:
            if gradient is not None:
                values = gradient.values if isinstance(gradient, tf().IndexedSlices) else gradient
                self._bad = self._bad or not _is_finite(values)

    def loss(self, value):
        self._bad = self._bad or not _is_finite(tf().convert_to_tensor(value))

    def operation(self, op_type, inputs, attrs, outputs, op_name=None, graph=None):
        if self.first is not None or graph is not None:
            return
        layer = self.layers[-1] if self.layers else None
        kind = (self.phase, layer, op_type)
        self._count[kind] += 1
        place = (*kind, self._count[kind])
        for output in outputs:
            if layer is not None:
                self._made[id(output)] = layer
            if _is_finite(output):
                continue
            self.met.add(place)
            if not self._goes_on and place not in self._harmless:
                self.first = {
                    "phase": self.phase,
                    "layer": layer or next((self._made[id(i)] for i in inputs if id(i) in self._made), None),
                    "op": _op(op_type),
                    "rows": _bad_rows(output, self._rows),
                    "taken_in": any(not _is_finite(tensor) for tensor in inputs),
                }
                raise Found


def _follow(trail, source, patches):
    """For the time of a replay: every operation, the layer it belongs to, and whether it is the way back."""
    callbacks = import_module("tensorflow.python.framework.op_callbacks")
    callbacks.add_op_callback(trail.operation)
    patches.callback(callbacks.remove_op_callback, trail.operation)
    layer = import_module(source + "layers.layer").Layer

    def in_layer(original):
        def __call__(self, *args, **kwargs):
            trail.layers.append(self.name)
            try:
                return original(self, *args, **kwargs)
            finally:
                trail.layers.pop()

        return __call__

    def in_phase(phase):
        def around(original):
            def call(*args, **kwargs):
                before, trail.phase = trail.phase, phase
                try:
                    return original(*args, **kwargs)
                finally:
                    trail.phase = before

            return call

        return around

    trainer = import_module(source + "trainers.trainer").Trainer
    for owner, name, around in (
        (layer, "__call__", in_layer),
        (trainer, "_compute_loss", in_phase("loss")),
        (tf().GradientTape, "gradient", in_phase("backward")),
    ):
        original = vars(owner)[name]
        setattr(owner, name, around(original))
        patches.callback(setattr, owner, name, original)


def _op(op_type):
    op_type = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
    return op_type.removeprefix("__inference_") if op_type.startswith("__inference_") else op_type


def _is_finite(tensor):
    if not tf().is_tensor(tensor) or isinstance(tensor, (tf().RaggedTensor, tf().SparseTensor)):
        return True
    if tensor.dtype.name not in _FLOATS or not hasattr(tensor, "numpy"):
        return True
    return bool(np().isfinite(tensor.numpy()).all())


def _bad_rows(tensor, rows):
    """Which of the batch's rows an output is not finite in; None where it does not tell."""
    shape = tuple(tensor.shape)
    if not shape or not rows or shape[0] % rows or not shape[0]:
        return None
    bad = ~np().isfinite(tensor.numpy()).reshape(rows, -1)
    return [int(row) for row in np().flatnonzero(bad.any(axis=1))]


def _entries(part, utils):
    """What is not finite in the batch itself: [{phase, name, rows, entry, value}], inputs first."""
    x, y, weight = utils.unpack_x_y_sample_weight(part)
    found = []
    for phase, name, value in (("input", "x", x), ("target", "y", y), ("target", "sample_weight", weight)):
        for path, leaf in named_leaves(name, value):
            if not _is_finite(leaf) and leaf.shape.rank:
                bad = ~np().isfinite(leaf.numpy())
                rows = [int(row) for row in np().flatnonzero(bad.reshape(len(bad), -1).any(axis=1))]
                entry = np().argwhere(bad[rows[0]])[0] if bad.ndim > 1 else ()
                value = leaf.numpy()[(rows[0], *entry)]
                found.append({
                    "phase": phase, "name": path, "rows": rows, "entry": [int(i) for i in entry], "value": str(value)
                })  # fmt: skip
    return found


def named_leaves(name, value):
    if isinstance(value, dict):
        return [pair for key, inner in value.items() for pair in named_leaves(f"{name}[{key!r}]", inner)]
    if isinstance(value, (list, tuple)):
        if len(value) == 1:
            return named_leaves(name, value[0])
        return [pair for index, inner in enumerate(value) for pair in named_leaves(f"{name}[{index}]", inner)]
    return [] if value is None else [(name, value)]
