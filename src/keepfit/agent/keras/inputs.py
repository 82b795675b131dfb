"""What goes into a `fit`: looked at before its first step, and in a batch every few seconds after.

Facts only: what is in the arrays, what the labels and the loss are, how a batch differs from the first ones. Rules are
the supervisor's.
"""

import atexit
import threading
import time
import weakref
from importlib import import_module

from ..tensorflow import damaged
from ..tensorflow.parts import np
from . import targets
from .blame import named_leaves
from .watched import FEW, data_of

SECONDS = 0.3  # that looking through arrays may take before the first step
CHUNK = 1 << 22  # entries looked at at once
EVERY = 5.0  # seconds between two batches that are looked at
FILES = 100  # names that are told
FIRST = 3  # batches that tell what is normal


class Inputs:
    def __init__(self, heart, gate, source, skips=False):
        """`skips`: samples that cannot be read are left out."""
        self._heart, self._gate, self._source = heart, gate, source
        self._skips = skips
        self._seen = None  # weak reference to the source that was looked at last
        self._trainings = 0
        self._waiting = None
        self._normal = []
        self._odd = {}  # name -> how often in a row a batch was unlike the first ones
        self._due = 0.0
        self._watched = None

    def epoch_begins(self, model):
        owner, watched = self._heart.train_source, self._gate.watched(model)
        if owner is None or watched is None or (self._seen is not None and self._seen() is owner):
            return
        self._seen, self._watched = weakref.ref(owner), watched
        self._trainings += 1
        self._normal, self._odd = [], {}
        watched.asked.assign(True)
        watched.begin_counting(not getattr(owner.data_adapter, "_inputs", None))  # arrays are counted at once
        self.tell_left_out()
        try:
            self._look_at_arrays(model, owner)
        except Exception as error:
            self._heart.failed("inputs", error)

    def handed(self, watched, batch):
        if watched.step == "train" and batch.is_finite:
            self._waiting = watched, batch

    def look(self):
        now = time.monotonic()
        if self._waiting is not None:
            (watched, batch), self._waiting = self._waiting, None
            self._look_at_batch(watched, batch)
        elif now >= self._due and self._watched is not None:
            self._due = now + EVERY
            self._watched.asked.assign(True)

    def epoch_ends(self):
        """Whether the data ended before the epoch did."""
        owner, model = self._heart.train_source, self._watched.model() if self._watched is not None else None
        if owner is None or model is None:
            return
        if self._watched.is_counting():
            if self._heart.first_step == 0:  # from its beginning, not from where a dead process was cut off
                self._tell_classes(self._watched.classes.numpy(), "first epoch")
            self._watched.counting.assign(False)
        if not owner.steps_per_epoch or model.stop_training:
            return
        seen = self._heart.live_step + model.steps_per_execution
        if seen < owner.steps_per_epoch:
            self._report("dry", wanted=int(owner.steps_per_epoch), seen=seen, epoch=self._heart.epoch)

    def failed(self, error):
        """A `fit` ended in an error: if a damaged file may be at fault, which one."""
        owner = self._heart.train_source
        if owner is None or not damaged.is_damage(error):
            return
        dataset = getattr(owner.data_adapter, "_dataset", None)
        name = damaged.find_file(dataset) if hasattr(dataset, "_inputs") else None
        if name is not None:
            self._report("corrupt", file=name)

    def tell_left_out(self):
        """In the background, once a source: which files `--on-bad-sample skip` leaves out."""
        dataset = getattr(getattr(self._heart.train_source, "data_adapter", None), "_dataset", None)
        if not self._skips or not hasattr(dataset, "_inputs"):
            return

        ended = threading.Event()

        def look():
            try:
                found = damaged.left_out(dataset, ended.is_set)
                if found is not None and found["files"]:
                    self._report("left-out", **{**found, "files": found["files"][:FILES]}, count=len(found["files"]))
            except Exception as error:
                self._heart.failed("inputs", error)

        thread = threading.Thread(target=look, name="keepfit-left-out", daemon=True)
        thread.start()

        def stop():  # a thread that is in TensorFlow when the interpreter goes would take the process down
            ended.set()
            thread.join()

        atexit.register(stop)

    def _report(self, what, **facts):
        if self._heart.journal is not None:
            self._heart.journal.write("report", kind="input", what=what, training=self._trainings, **facts)

    # --- arrays -------------------------------------------------------------------------------------------

    def _look_at_arrays(self, model, owner):
        utils = import_module(self._source + "trainers.data_adapters.data_adapter_utils")
        inputs = getattr(owner.data_adapter, "_inputs", None)
        if not inputs:
            return
        x, y, weight = utils.unpack_x_y_sample_weight(tuple(inputs) if isinstance(inputs, list) else inputs)
        until = time.monotonic() + SECONDS
        for name, leaf in [*named_leaves("x", x), *named_leaves("y", y), *named_leaves("sample_weight", weight)]:
            array = _array(leaf)
            if array is not None and array.dtype.kind == "f":
                found = _nonfinite(array, until)
                if found:
                    self._report("nonfinite", name=name, rows=len(array), **found)
        labels = [array for _, leaf in named_leaves("y", y) if (array := _array(leaf)) is not None]
        if len(labels) == 1:
            facts = self._tell_targets(model, labels[0], whole=True)
            classes = targets.classes_of(model, self._source)
            if classes and facts is not None and facts["integer"]:
                self._tell_classes(targets.counted(labels[0], classes).numpy(), "data")

    def _tell_targets(self, model, labels, whole):
        facts = targets.facts_of(model, labels, self._source)
        if facts is not None:
            self._report("targets", whole=whole, **facts)
        return facts

    def _tell_classes(self, counts, where):
        absent = [int(number) for number in np().flatnonzero(counts == 0)]
        self._report("classes", units=len(counts), absent=len(absent), missing=absent[:20], where=where)

    # --- batches ------------------------------------------------------------------------------------------

    def _look_at_batch(self, watched, batch):
        data, model = data_of(batch), watched.model()
        if data is None or model is None:
            return
        x, y, _ = import_module(self._source + "trainers.data_adapters.data_adapter_utils").unpack_x_y_sample_weight(
            data
        )
        leaves = [(name, leaf.numpy()[:FEW]) for name, leaf in named_leaves("x", x) if hasattr(leaf, "numpy")]
        now = {name: _range(values) for name, values in leaves if values.dtype.kind in "fiu" and values.size}
        if len(self._normal) < FIRST:
            if not self._normal:
                self._tell_first(model, now, y)
            self._normal.append(now)
            return
        for name, found in now.items():
            known = [normal[name] for normal in self._normal if name in normal]
            self._odd[name] = self._odd.get(name, 0) + 1 if known and _unlike(found, known) else 0
            if self._odd[name] == 2:
                self._report("drift", name=name, now=found, normal=_merged(known), epoch=self._heart.epoch)

    def _tell_first(self, model, now, y):
        labels = [leaf.numpy() for _, leaf in named_leaves("y", y) if hasattr(leaf, "numpy")]
        arrays = getattr(getattr(self._heart.train_source, "data_adapter", None), "_inputs", None)
        if len(labels) == 1 and not arrays:
            self._tell_targets(model, labels[0], whole=False)
        first = [type(layer).__name__ for layer in model._flatten_layers(include_self=False)][:6]
        self._report("scale", first=first, ranges=now)


# --- looking ------------------------------------------------------------------------------------------------


def _array(leaf):
    try:
        array = np().asarray(leaf)
    except Exception:  # sparse, ragged, or a class of the user's own
        return None
    return array if array.ndim and array.dtype.kind in "biuf" else None


def _nonfinite(array, until):
    """{bad, first, entry, value, looked} of rows that are not finite, as far as the time went; None: there are none."""
    flat = array.reshape(len(array), -1)
    step = max(1, CHUNK // max(1, flat.shape[1]))
    bad, first, looked = 0, None, 0
    for start in range(0, len(flat), step):
        if start and time.monotonic() > until:
            break
        part = flat[start : start + step]
        looked += len(part)
        with np().errstate(all="ignore"):  # what a script does with warnings is not for ours
            if np().isfinite(part.sum(dtype="float64")):
                continue
        rows = np().flatnonzero(~np().isfinite(part).all(axis=1))
        bad += len(rows)
        if first is None and len(rows):
            first = start + int(rows[0])
    if first is None:
        return None
    entry = np().argwhere(~np().isfinite(array[first]))[0] if array.ndim > 1 else ()
    value = str(array[(first, *entry)])
    return {"bad": bad, "first": first, "entry": [int(i) for i in entry], "value": value, "looked": looked}


def _range(values):
    values = values.astype("float32")
    with np().errstate(all="ignore"):
        return {
            "low": float(values.min()), "high": float(values.max()), "mean": float(values.mean()),
            "spread": float(values.std()), "rank": values.ndim,
        }  # fmt: skip


def _merged(known):
    return {
        "low": min(one["low"] for one in known), "high": max(one["high"] for one in known),
        "spread": sorted(one["spread"] for one in known)[len(known) // 2], "rank": known[0]["rank"],
    }  # fmt: skip


def _unlike(found, known):
    """Worth telling at all: the rule has the last word."""
    normal = _merged(known)
    spread = max(normal["spread"], 1e-12)
    return found["rank"] != normal["rank"] or not 0.2 < max(found["spread"], 1e-12) / spread < 5
