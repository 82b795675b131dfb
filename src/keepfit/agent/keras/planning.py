"""A training that is only planned: it runs up to its first step, which is looked at and tried in small.

Facts only; what they mean is the supervisor's affair, and it ends the process when it has heard enough.
"""

import contextlib
import inspect
import itertools
import os
import time
from importlib import import_module

from .. import written
from ..peak import Peak, anonymous, files, give_back, most
from ..processor import has_bfloat16
from ..tensorflow import buffers, liveness, parts, tracing, work
from ..tensorflow.parts import np, tf
from .decision import bytes_of, fingerprint, sizes_of, versions
from .examine import has_own, notes
from .held import HeldBatches
from .pipeline import validation_batches

STEPS = 3  # of a trial, at least: the first one is not like the others
FORECAST = 2  # trials that a forecast is made of; those behind them look for the largest batch
UNFELT = 10.0  # seconds that the steps of a trial may take beyond the least
BETWEEN = "(between layers)"
LAYERS = 200  # that are told one by one
SECONDS = 10.0  # to look for the largest batch of data whose shapes differ


def is_wanted():
    return bool(os.environ.get("KEEPFIT_PLAN"))


def refusing(heart, why):
    """Around a training call that cannot be planned: it is not made either."""

    def around(original):
        def fit(*args, **kwargs):
            heart.counsel.ask("planned", failed=why)
            wait_to_be_ended()

        return fit

    return around


class Planner:
    """Stands at the first training call of a script, which goes no further."""

    def __init__(self, source, heart):
        self._source, self._heart = source, heart
        trainer = import_module(source + "backend.tensorflow.trainer").TensorFlowTrainer
        self._make_test = trainer.make_test_function  # as Keras has it, before anything is wrapped around it
        self._loop = None  # (optimizer, what it trains) of a hand-written step that is being traced
        self._found = False  # the training call: what is traced or run from now on is our own doing
        self._fit = {}  # the arguments of the `fit` that is going on

    def fitting(self, original):
        """Around `fit`."""
        signature = inspect.signature(original)

        def fit(model, *args, **kwargs):
            with contextlib.suppress(TypeError):  # the user's mistake: Keras says so
                self._fit = signature.bind(model, *args, **kwargs).arguments
            return original(model, *args, **kwargs)

        return fit

    def take(self, model, function, held):
        """Never returns."""
        self._found = True
        try:
            self._plan(model, function, held)
        except Exception as error:
            self._heart.failed("planning", error)
            self._heart.counsel.ask("planned", failed=f"{type(error).__name__}: {str(error)[:300]}")
        wait_to_be_ended()

    # --- loops of the user's own: what is seen of their first step is all there is ------------------------

    def applying(self, optimizer, trained, eager):
        """Gradients are about to be applied, by a step that is run as it is written or one that is being traced."""
        if self._found:
            return
        trained = list(trained)
        if not eager:
            self._loop = optimizer, trained
            return
        if not optimizer.built:
            optimizer.build(trained)
        facts = self._loop_facts(optimizer, trained)
        # The next step holds this one's gradients until it has its own, and the optimizer's state is new.
        self._tell({**facts, "seen": most() + facts["model"]["trainable"] + facts["model"]["optimizer"]})

    def traced(self, graph, graphs):
        """A function was traced, from its first line to its last."""
        if self._loop is None:
            return
        facts = self._loop_facts(*self._loop)
        rows = facts["rows"] = facts["rows"] or _rows_of(graph)
        self._tell({**facts, "static": _curve(graph, graphs, rows) if rows else []})

    def second_step(self):
        """A loop that applies gradients in a way of its own has come to its second batch."""
        self._tell({**self._loop_facts(None, []), "seen": most()})

    def _loop_facts(self, optimizer, trained):
        state = sum(bytes_of(variable) for variable in getattr(optimizer, "variables", ()))
        size = sum(bytes_of(variable) for variable in trained)
        return {
            "rows": self._heart.batch_size, "before": anonymous(), "in_use": anonymous(), "files": files(),
            "model": {"weights": size, "trainable": size, "optimizer": state}, "loop": True,
            "cut": "the loop is the script's own: its batch cannot be made smaller from outside",
            "wrote": written.kept(), "seconds": {},
        }  # fmt: skip

    def _tell(self, facts):
        try:
            self._heart.journal.write("plan", **facts)
            self._heart.counsel.ask("planned")
        finally:
            wait_to_be_ended()

    # --- Keras' own loops -----------------------------------------------------------------------------------

    def _plan(self, model, function, held):
        before, prepared = anonymous(), most()
        held.listed()  # its buffers are filled before the first batch comes; data that fails says so itself
        shapes = worst(held)
        began = time.monotonic()
        graphs = {}
        graph = None
        if not model.run_eagerly:
            held.of_any_rows()  # as they will be tried: a second graph would be no part of the training
            with tracing.collected(self._heart) as graphs:
                graph = held.trace(function)
        traced = time.monotonic() - began
        facts = {
            "before": before,
            "prepared": prepared,
            "epochs": self._epochs(),
            "key": fingerprint(model, "train", held, self._source),
            "likeness": fingerprint(model, "train", held, self._source, of_versions=False),
            "versions": versions(self._source),
            "own_step": has_own(model, "train", self._source),
            "wrote": written.kept(),
            "shapes": shapes,
            **facts_of(model, graph, graphs, held.rows(), *_pipeline(self._heart.train_source)),
        }
        facts["seconds"]["trace"] = traced
        facts["validation"] = self._validation(model, held)
        why_not = parts.why_not_cut(held.first())
        facts["cut"] = why_not
        self._heart.journal.write("plan", **facts)
        self._try_all(function, held)

    def _try_all(self, function, held):
        """Every size that is asked for."""
        tried, ready = {}, 0
        for trial in itertools.count():
            answer = self._heart.counsel.ask("planned", **tried)
            if answer is None or not answer.get("rows"):
                return
            gone = 0
            if trial == 1:
                ready = anonymous()  # traced and optimised, with next to no rows computed
            if trial >= FORECAST:
                # What smaller ones have left in malloc's hands is in no training; what the tracing left there is.
                give_back()
                gone = max(0, ready - anonymous())
            tried = self._tried(function, held, int(answer["rows"]))
            if "peak" in tried:
                tried["peak"] += gone

    def _tried(self, function, held, rows):
        """A trial; {untried}: why it failed, as a model of a fixed number of rows does."""
        try:
            return {"rows": rows, **_trial(function, *self._sized(held, rows))}
        except Exception as error:
            self._heart.failed("planning.trial", error)
            return {"untried": f"a batch of {rows} rows failed ({type(error).__name__})"}

    def _sized(self, held, rows):
        """(batches of so many rows, the steps to run on them at least, and at most)"""
        return held.sized(rows, STEPS), STEPS, STEPS

    def _epochs(self):
        """How many times the `fit` that is going on begins its data anew."""
        if self._fit.get("steps_per_epoch") is not None:  # one iterator for all of them
            return 1
        return int(self._fit.get("epochs", 1)) - int(self._fit.get("initial_epoch", 0))

    def _validation(self, model, held):
        """{rows, bytes, seconds}: what its graph keeps alive at its peak; {failed}: why not. None: there is none."""
        given = self._fit
        rows = given.get("validation_batch_size") or 0
        if given.get("validation_data") is None and not given.get("validation_split"):
            return None
        if model.run_eagerly:
            return {"failed": "it runs eagerly, and has no graph"}
        try:
            if given.get("validation_data") is not None:
                batches = validation_batches(self._source, model, given)
                held = HeldBatches(iter(batches._distributed_dataset), model.steps_per_execution)
            # Without it, a split: rows like those of the training.
            began = time.monotonic()
            with tracing.collected(self._heart) as graphs:
                self._make_test(model)
                graph = held.trace(model.test_function)
            rows = rows or held.rows()
            size = liveness.peak_bytes(graph, graphs, held.rows(), rows)
            return {"rows": rows, "bytes": size, "seconds": time.monotonic() - began}
        except Exception as error:
            self._heart.failed("planning.validation", error)
            return {"failed": f"{type(error).__name__}: {str(error)[:200]}"}


def facts_of(model, graph, graphs, rows, pipeline, preloaded):
    """What can be told of a training before its first step; `graph` is that of its step, None where it has none."""
    began = time.monotonic()
    facts = {
        "rows": rows,
        "in_use": anonymous(),
        "files": files(),
        "model": sizes_of(model),
        "eager": bool(model.run_eagerly),
        "jit": bool(model.jit_compile),
        "replicas": _replicas(model),
        "optimizer": type(getattr(model, "optimizer", None)).__name__,
        "notes": notes(model),
        "dtype": str(getattr(getattr(model, "dtype_policy", None), "name", "")),
        "bfloat16": has_bfloat16(),
        "pipeline": pipeline,
        "preloaded": preloaded,
    }
    if graph is not None:
        read = {}  # of the graph, once for all three
        facts["static"] = _curve(graph, graphs, rows, read)
        alive = liveness.at_peak(graph, graphs, rows, rows, read)
        facts["layers"] = _layers(model, alive, work.shares(graph, graphs, rows, read))
    facts["seconds"] = {"static": time.monotonic() - began}
    return facts


def wait_to_be_ended():
    """Nothing of the script's runs any more; the supervisor takes the process and its children away."""
    supervisor = os.environ.get("KEEPFIT_PULSE", "")  # a file of its own, which is gone when it is
    while os.path.exists(supervisor):
        time.sleep(0.2)
    os._exit(1)


def _trial(function, batches, least, most):
    """Some steps, more than the least while they take no time to speak of.

    How far their peaks lie apart tells how far a training's may be from this one; the last ones how long one takes.
    """
    peak, peaks, took = Peak(), [], []
    while len(took) < least or (len(took) < most and sum(took) < UNFELT):
        peak.reset()
        began = time.monotonic()
        result = function(batches)
        tf().nest.map_structure(lambda leaf: getattr(leaf, "numpy", lambda: None)(), result)
        took.append(time.monotonic() - began)
        peaks.append(peak.read())
    return {"peak": max(peaks), "spread": max(peaks[1:]) - min(peaks[1:]), "seconds": min(took[1:])}


def worst(held):
    """Where shapes differ from batch to batch: the largest one takes the first one's place.

    {batches, largest, mean, padding}: how many were looked at, bytes, and the share of zeros in sequences of whole
    numbers whose length differs, which is what those are padded with. None where all batches are alike.
    """
    spec = tf().nest.flatten(held.spec())
    if not all(isinstance(leaf, tf().TensorSpec) for leaf in spec) or not any(map(_differs, spec)):
        return None
    until = time.monotonic() + SECONDS
    largest, sizes, zeros, words = held.first(), [], 0, 0
    for batch in itertools.chain([largest], held.more()):
        size = sum(map(_bytes, parts.leaves(batch)))
        if size > max(sizes, default=0):
            largest = batch
        sizes.append(size)
        for leaf, told in zip(tf().nest.flatten(batch), spec):
            if leaf.dtype.is_integer and leaf.shape.rank == 2 and _differs(told):
                zeros += int(tf().math.count_nonzero(leaf == 0))
                words += int(tf().size(leaf))
        if time.monotonic() > until:
            break
    held.instead(largest)
    mean = sum(sizes) // len(sizes)
    return {"batches": len(sizes), "largest": max(sizes), "mean": mean, "padding": zeros / words if words else 0.0}


def _differs(spec):
    return spec.shape.rank is not None and None in spec.shape.as_list()[1:]


def _pipeline(owner):
    """(what the stages of the input hold, bytes of the arrays it starts from)"""
    adapter = getattr(owner, "data_adapter", None)
    arrays = getattr(adapter, "_inputs", None)
    return held_by_arrays(arrays) if arrays is not None else held_by(getattr(adapter, "_dataset", None))


def held_by_arrays(arrays):
    """Each array once, also where it is both what is given and what is wanted; files mapped to memory not at all."""
    found = {_address(leaf): leaf for leaf in parts.leaves(arrays) if not isinstance(leaf, np().memmap)}
    return [], sum(map(_bytes, found.values()))


def _address(leaf):
    return getattr(leaf, "__array_interface__", {}).get("data", (id(leaf),))[0]


def held_by(dataset):
    return (buffers.of(dataset), buffers.preloaded(dataset)) if hasattr(dataset, "_inputs") else ([], 0)


def _curve(graph, graphs, rows, read=None):
    """[(rows, bytes)]: what the graph says of batches of other sizes."""
    wanted = sorted({1, max(1, rows // 2), rows, 2 * rows})
    return liveness.curve(graph, graphs, rows, wanted, read)


def _layers(model, alive, work):
    """By layer: what it made of all that is alive at the peak, the bytes of its weights, its share of the work."""
    weights = {}
    for layer in model._flatten_layers(include_self=False, recursive=False):
        weights[layer.name] = sum(bytes_of(variable) for variable in layer.weights)
    alive, work = ([(name.split("/"), value) for name, value in found] for found in (alive, work))
    owners = owners_of({word for words, _ in work for word in words}, weights)

    def by_owner(found):
        sums = dict.fromkeys([*weights, BETWEEN], 0)
        for words, value in found:
            sums[next((owners[word] for word in words if word in owners), BETWEEN)] += value
        return sums

    kept, share = by_owner(alive), by_owner(work)
    told = [
        {
            "name": name,
            "activation_bytes": kept[name],
            "weight_bytes": weights.get(name, 0),
            "time_share": round(share[name], 4),
        }
        for name in [*weights, BETWEEN]
    ]
    told.sort(key=lambda each: -each["activation_bytes"] - each["weight_bytes"])
    return told[:LAYERS]


def owners_of(scopes, layers):
    """{scope: layer}. Where its name was taken already a layer goes by that and a number.

    So `conv2d_1` may be the layer of that name or another call of `conv2d`: the one that would have no scope else.
    """
    owners, either = {}, []
    for scope in sorted(scopes):
        stem, _, number = scope.rpartition("_")
        numbered = number.isdigit() and stem in layers
        if scope in layers and numbered:
            either.append((scope, stem))
        elif scope in layers or numbered:
            owners[scope] = scope if scope in layers else stem
    for scope, stem in either:
        known = set(owners.values())
        owners[scope] = stem if scope in known and stem not in known else scope
    return owners


def _rows_of(graph):
    """The first dimension of a traced step's arguments, where they agree on one."""
    found = {int(tensor.shape[0]) for tensor in graph.inputs if tensor.shape.rank and tensor.shape[0] is not None}
    return found.pop() if len(found) == 1 else 0


def _bytes(leaf):
    """Of an array, a tensor (ragged and sparse ones too) or a table."""
    if hasattr(leaf, "memory_usage"):
        return int(np().sum(leaf.memory_usage(index=False)))
    if isinstance(leaf, tf().RaggedTensor):
        return _bytes(leaf.flat_values)
    if isinstance(leaf, tf().SparseTensor):
        return _bytes(leaf.values) + _bytes(leaf.indices)
    size = getattr(leaf, "nbytes", None)
    return int(size) if size is not None else int(np().prod(leaf.shape)) * leaf.dtype.size


def _replicas(model):
    strategy = getattr(model, "_distribute_strategy", None) or import_module("tensorflow").distribute.get_strategy()
    return int(strategy.num_replicas_in_sync)
