"""The health of a training, in numbers: looked at after 50 steps and at every doubling, told, and judged elsewhere.

Loss and gradient norm of every step are in the ring; what costs more (norms by variable, how far the weights move,
what the units do) is taken from one batch at a time. The supervisor has the rules.
"""

import collections
import math
import time
from importlib import import_module

from ..tensorflow import parts, variables
from ..tensorflow.parts import np, tf
from .decision import Unchanged
from .watched import RING, data_of

FIRST = 50  # steps
LOOKS = 3  # that must agree before something is called so
ROWS = 32  # of a batch that are looked at
SLICE = 1024  # entries of a weight whose movement is looked at
ONCE, EFFORT = 0.5, 0.005  # seconds for every training, and a part of the time
CLIP_AFTER = 100  # steps whose norms make a percentile


class Health:
    def __init__(self, heart, gate, guard, source, clip=None, wanted=None):
        """`clip`: the variable that bounds the gradients' norm; `wanted`: what the user said, `auto` or a number."""
        self._heart, self._gate, self._guard = heart, gate, guard
        self._layers = source
        self._clip, self._wanted = clip, wanted
        self._cases = {}  # id of what is watched -> Case
        self._current = None
        self._spent, self._began = 0.0, time.monotonic()

    def epoch_begins(self, model):
        watched = self._gate.watched(model)
        if watched is not None:
            self._current = self._cases.setdefault(id(watched), Case(watched, len(self._cases)))

    def handed(self, watched, batch):
        """A batch that was asked for, from within the step; one that is not finite tells nothing of health."""
        case = self._cases.get(id(watched))
        if case is not None and case.asked:
            case.batch, case.asked = (batch, True) if batch.is_finite else (None, False)

    def look(self):
        case = self._current
        model = case.watched.model() if case is not None else None
        if model is None:
            return
        if case.batch is not None:
            self._examine(case, model)
            return
        if case.asked or self._spent > ONCE * len(self._cases) + EFFORT * self._elapsed():
            return
        steps = int(case.watched.count.numpy())
        if steps < case.due:
            return
        case.asked, case.before = True, (steps, _slices(model))
        case.watched.asked.assign(True)

    def _elapsed(self):
        return time.monotonic() - self._began

    def _examine(self, case, model):
        began = time.monotonic()
        batch, case.batch, case.asked = case.batch, None, False
        try:
            facts = self._facts(case, model, batch)
        finally:
            self._spent += time.monotonic() - began
        while case.due <= batch.number:
            case.due *= 2
        if self._heart.journal is not None:
            self._heart.journal.write("report", kind="health", **facts)

    def _facts(self, case, model, batch):
        losses, norms = case.watched.recent()
        good = [(float(loss), float(norm)) for loss, norm in zip(losses, norms) if math.isfinite(norm)]
        case.probes += 1
        facts = {"steps": batch.number, "probes": case.probes, "epoch": self._heart.epoch, "training": case.number}
        if good:
            facts.update(case.trend([loss for loss, _ in good], [norm for _, norm in good]))
            self._bound(facts)
        facts["gradients"] = case.over_looks("gradients", _rms(case.watched, model, batch.squares), max)
        moved = _movement(case.before, model, int(case.watched.count.numpy()))
        facts["updates"] = case.over_looks("updates", moved, min)
        optimizer = model.optimizer
        if hasattr(optimizer, "dynamic_scale"):
            facts["scale"] = float(variables.read(optimizer.dynamic_scale).numpy())
            facts["applied"] = int(variables.read(optimizer.iterations).numpy())
        data = data_of(batch)
        if data is not None:
            facts["units"] = self._units(case, model, data)
        return facts

    def _bound(self, facts):
        if self._clip is not None and self._wanted == "auto" and facts["counted"] >= CLIP_AFTER and facts["norm_95"]:
            self._clip.assign(facts["norm_95"])
            facts["clip"] = facts["norm_95"]

    def _units(self, case, model, data):
        """{layer: (share of units that were never active, share of saturated activations)} over all looks so far."""
        split = self._guard.split_of(model, "train")
        rows = min(ROWS, int(split.micro.numpy())) if split is not None else ROWS
        x = data[0] if isinstance(data, tuple) else data
        with Unchanged(model), Activations(self._layers, model) as seen:
            try:
                model(parts.cut(x, 0, rows), training=False)
            except Exception:  # a model that is trained in parts of its own is not called as a whole
                return {}
        return case.units(seen.found)


class Case:
    """What is known of one training."""

    def __init__(self, watched, number):
        self.watched = watched
        self.number = number
        self.due = FIRST
        self.asked = False
        self.batch = None
        self.before = None
        self.probes = 0
        self._first = None  # (loss, norm): medians of the first steps
        self._best = None
        self._looks = {}  # what was found at the last looks, by what it is of
        self._active = {}  # layer -> which of its units were ever active
        self._rows = 0

    def trend(self, losses, norms):
        median = np().median
        if self._first is None:
            self._first = float(median(losses[:20])), float(median(norms[:20]))
        last = losses[-50:]
        now = float(median(last))
        self._best = now if self._best is None else min(self._best, now)
        recent = norms[-500:]
        return {
            "counted": len(recent), "loss_first": self._first[0], "norm_first": self._first[1], "loss": now,
            "loss_best": self._best, "loss_range": float(max(last) - min(last)), "norm": float(median(norms[-50:])),
            "norm_95": float(np().percentile(recent, 95)), "norm_most": float(max(recent)),
            "window": min(RING, len(losses)),
        }  # fmt: skip

    def over_looks(self, what, found, choose):
        """By name, over the last few looks: what is called small, or large, was so at each of them."""
        looks = self._looks.setdefault(what, collections.deque(maxlen=LOOKS))
        looks.append(found)
        return {name: choose(look.get(name, value) for look in looks) for name, value in found.items()}

    def units(self, found):
        flat = self.over_looks("saturated", {name: saturated for name, (_, _, saturated, _) in found.items()}, min)
        told = {}
        for name, (kind, active, _, rows) in found.items():
            before = self._active.get(name)
            active = active if before is None or before.shape != active.shape else before | active
            self._active[name] = active
            told[name] = {"kind": kind, "never": float(1 - active.mean()), "saturated": flat[name], "rows": rows}
        return told


class Activations:
    """While a model is called: what the units of its layers with a rectifier, a sigmoid or a tanh do."""

    def __init__(self, source, model):
        self._layer = import_module(source + "layers.layer").Layer
        self._outputs = {id(layer) for layer in getattr(model, "_output_layers", ()) or [*model.layers[-1:]]}
        self.found = {}

    def __enter__(self):
        self._original = original = self._layer.__call__

        def __call__(layer, *args, **kwargs):
            result = original(layer, *args, **kwargs)
            kind = _kind(layer)
            if kind is not None and id(layer) not in self._outputs and hasattr(result, "numpy"):
                self._note(layer.name, kind, result.numpy())
            return result

        self._layer.__call__ = __call__
        return self

    def __exit__(self, *_):
        self._layer.__call__ = self._original

    def _note(self, name, kind, values):
        values = values.astype("float32").reshape(-1, values.shape[-1]) if values.ndim > 1 else None
        if values is None:
            return
        active = (values > 0).any(axis=0) if kind == "relu" else np().ones(values.shape[-1], bool)
        saturated = 0.0
        if kind == "tanh":
            saturated = float((np().abs(values) > 0.99).mean())
        elif kind == "sigmoid":
            saturated = float(((values < 0.01) | (values > 0.99)).mean())
        self.found[name] = kind, active, saturated, len(values)


def _kind(layer):
    """relu, sigmoid or tanh: what a layer ends in; None for any other."""
    function = getattr(layer, "activation", None)
    name = getattr(function, "__name__", "") if function is not None else type(layer).__name__.lower()
    if hasattr(layer, "cell") or hasattr(layer, "recurrent_activation"):
        return None  # gates saturate for a living
    return name if name in ("relu", "sigmoid", "tanh") else None


def _rms(watched, model, squares):
    """{variable: root of the mean squared entry of its gradient, as a part of the largest}, of matrices and kernels."""
    sizes = {v.path: int(np().prod(v.shape)) for v in model.trainable_weights if len(v.shape) > 1}
    found = {
        name: math.sqrt(2 * float(value) / sizes[name])
        for name, value in zip(watched.names, squares)
        if name in sizes and math.isfinite(value)
    }
    largest = max(found.values(), default=0.0) or 1.0
    return {name: value / largest for name, value in found.items()}


def _slices(model):
    return {
        v.path: tf().reshape(variables.read(v), (-1,))[:SLICE].numpy()
        for v in model.trainable_weights
        if len(v.shape) > 1 and v.dtype.startswith("float")
    }


def _movement(before, model, count):
    """{variable: how far it moves in a step, as a part of its size}."""
    number, old = before
    steps, found = max(1, count - number), {}
    for name, new in _slices(model).items():
        size = float(np().sqrt(np().mean(new.astype("float64") ** 2)))
        if name in old and size:
            moved = float(np().sqrt(np().mean((new.astype("float64") - old[name]) ** 2)))
            found[name] = moved / size / steps
    return found
