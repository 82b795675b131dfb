"""A forecast in a notebook: `keepfit.plan(model, …)`. Nothing is run; the model's own training step is traced."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .agent import peak
from .machine import cgroup, limits
from .machine.limits import parse_size
from .plan import forecast, largest
from .plan.whole import Plan, document
from .quick import dataclass
from .report import plan_html, plan_text


@dataclass(frozen=True)
class Forecast:
    """What a training will need. `print` shows it, a notebook draws it, `document` has the numbers."""

    document: Mapping[str, Any]

    @property
    def fits(self) -> bool:
        return bool(self.document["fits"])

    @property
    def peak_bytes(self) -> int:
        return int(self.document["predicted_peak_bytes"])

    def __str__(self) -> str:
        return plan_text.render(self.document, colours=False, width=100)

    def _repr_html_(self) -> str:
        return plan_html.render(self.document)


def plan(
    model: Any,
    x: Any,
    y: Any = None,
    batch_size: int | None = None,
    optimizer: Any = None,
    memory: str | int | None = None,
) -> Forecast:
    """Forecast `model.fit(x, y, batch_size)` without a step: from the graph of its training step.

    `x` is what `fit` would be given: arrays, a tf.data pipeline; or tf.TensorSpec in their place, where there is no
    data yet. `optimizer` stands in for the model's own, on a copy of it. `memory` is what to plan for, such as "8GiB".
    The model must be compiled; its optimizer's state is made, as `fit` would make it.
    """
    keras, tf = import_module("keras"), import_module("tensorflow")
    if not isinstance(model, keras.Model):
        raise TypeError(f"a keras.Model was expected; received {type(model).__name__}")
    if getattr(model, "optimizer", None) is None:
        raise ValueError("a compiled model was expected; received one without an optimizer (model.compile(…))")
    batch_size = _whole("batch_size", batch_size)
    original, before = model, peak.anonymous()
    model = original if optimizer is None else _with(original, optimizer, keras)
    copied = peak.anonymous() - before
    room = parse_size(memory) if isinstance(memory, str) else _whole("memory", memory)
    limit = limits.effective(cgroup.placement(), os.environ, room)
    if limit is None:
        raise ValueError("this machine does not tell how much memory there is; give memory=SIZE")
    outlook, holdings = (import_module(f".agent.keras.{name}", __package__) for name in ("outlook", "holdings"))
    spec, rows, held, first_only = _specified(x, y, batch_size, tf, holdings)
    graph = None if model.run_eagerly else _traced(model, spec, tf)
    if graph is None:
        model._symbolic_build(data_batch=spec)
    told = {**outlook.facts_of(model, graph, {}, rows, *held), "cut": "a forecast runs nothing"}
    told["first_only"] = first_only
    if model is not original:  # one of the two will be there when it is trained, with one optimizer
        told["in_use"] -= copied + outlook.sizes_of(original)["optimizer"]
        _empty(model, tf)
    facts = forecast.Facts.of(told)
    return Forecast(document(Plan(limit, facts, [], wanted=largest.Wanted(limit.bytes), budget=room)))


def _whole(name: str, given: Any) -> int | None:
    try:
        number = None if given is None else operator.index(given)
    except TypeError:
        number = 0
    if number is not None and number < 1:
        raise ValueError(f"{name}: a whole number from 1 was expected; received {given!r}")
    return number


def _with(model: Any, optimizer: Any, keras: Any) -> Any:
    copy = keras.models.clone_model(model)
    copy.compile(optimizer=optimizer, loss=model.loss, run_eagerly=model.run_eagerly, jit_compile=model.jit_compile)
    return copy


def _empty(copy: Any, tf: Any) -> None:
    """Variables that a traced step has seen stay for as long as the process, whoever lets go of them: without bytes."""
    with contextlib.suppress(Exception):  # one that is spread over several devices has no handle of its own
        for variable in (*copy.variables, *copy.optimizer.variables):
            resource, nothing = variable.value.handle, tf.zeros((0,), variable.dtype)
            tf.raw_ops.AssignVariableOp(resource=resource, value=nothing, validate_shape=False)


def _specified(x: Any, y: Any, batch_size: int | None, tf: Any, holdings: Any) -> tuple[Any, int, Any, bool]:
    """(the specs of a batch, its rows, what the input holds, whether lengths are those of its first batch)."""
    if isinstance(x, tf.data.Dataset):
        if y is not None or batch_size is not None:
            raise ValueError("y and batch_size: nothing was expected beside a tf.data pipeline, which has both")
        spec, first_only = _known(x, tf)
        return spec, _rows_of(x.element_spec, x, tf), holdings.held_by(x), first_only
    data = (x,) if y is None else (x, y)

    def one(leaf: Any) -> Any:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype") or not len(leaf.shape):
            raise TypeError(f"arrays, a tf.data.Dataset or tf.TensorSpec were expected; received {type(leaf).__name__}")
        if None in leaf.shape[1:]:
            raise ValueError(f"a length along every axis but the first was expected; received {tuple(leaf.shape)}")
        return tf.TensorSpec([None, *leaf.shape[1:]], tf.as_dtype(leaf.dtype))

    spec = tf.nest.map_structure(one, data)
    arrays = [leaf for leaf in tf.nest.flatten(data) if not isinstance(leaf, tf.TensorSpec)]
    lengths = {int(leaf.shape[0]) for leaf in arrays}
    if len(lengths) > 1:
        raise ValueError(f"as many rows in each array were expected; received {sorted(lengths)}")
    rows = max(1, min([batch_size or 32, *lengths]))  # as `fit` would have it
    return spec, rows, holdings.held_by_arrays(arrays), False


def _known(dataset: Any, tf: Any) -> tuple[Any, bool]:
    """(the specs of its batches, of any number of rows; whether lengths that it does not tell are its first one's)."""
    parts = import_module(".agent.tensorflow.parts", __package__)
    spec = parts.of_any_rows(dataset.element_spec)
    leaves = [leaf for leaf in tf.nest.flatten(spec) if isinstance(leaf, tf.TensorSpec) and leaf.shape.rank]
    if not any(None in leaf.shape.as_list()[1:] for leaf in leaves):
        return spec, False
    return parts.of_any_rows(next(iter(dataset))), True


def _rows_of(spec: Any, dataset: Any, tf: Any) -> int:
    """Rows of a pipeline's batches: as it tells, or as its first one has them."""
    first = tf.nest.flatten(spec)[0].shape
    if first.rank and first[0] is not None:
        return int(first[0])
    stages = import_module(".agent.tensorflow.buffers", __package__).stages
    for stage in stages(dataset):
        size = getattr(stage, "_batch_size", None)
        if size is not None:
            return int(size)
    return int(tf.shape(tf.nest.flatten(next(iter(dataset)))[0])[0])


def _traced(model: Any, spec: Any, tf: Any) -> Any:
    """The graph of a training step; the model keeps the function that it had."""
    held = import_module(".agent.keras.held", __package__)
    before = model.train_function
    model.make_train_function(force=True)
    try:
        function = model.train_function
        function = getattr(function, "_function", function)  # inside a run of keepfit's the guard stands before it
        return held.HeldBatches(iter(_none(spec, tf)), 1).trace(function)
    finally:
        model.train_function = before


def _none(spec: Any, tf: Any) -> Any:
    """A pipeline of such batches, without any. Not `from_generator`, which changes malloc's settings for good."""

    def batch(number: Any) -> Any:
        leaves = tf.nest.flatten(spec, expand_composites=True)
        return tf.nest.pack_sequence_as(spec, [one(leaf, number) for leaf in leaves], expand_composites=True)

    def one(leaf: Any, number: Any) -> Any:
        rank = number if leaf.shape.rank is None else leaf.shape.rank
        return tf.ensure_shape(tf.zeros(tf.fill([rank], number), leaf.dtype), leaf.shape)

    return tf.data.Dataset.range(0).map(batch)
