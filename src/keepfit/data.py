"""Data in a notebook or a script: `keepfit.check`, `keepfit.compare`, `keepfit.clean`."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np

from .check import judging, objects
from .check.columns import Columns
from .check.run import Checked
from .check.run import check as files
from .check.summary import Seen
from .facts import Finding
from .quick import dataclass
from .report import check_text

TIMES = 4.0  # by which a spread may differ between raw and augmented
ROWS = 10_000  # of a dataset that statistics are taken from


@dataclass(frozen=True)
class Report:
    """What was found; `print(report)` shows it."""

    seen: Seen
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def __str__(self) -> str:
        return check_text.render(Checked([self.seen], self.findings), colours=False)


def check(data: Any, name: str = "data") -> Report:
    """Look through arrays, a DataFrame, a tf.data or PyDataset, anything that yields batches, or a file by its name."""
    if isinstance(data, (str, os.PathLike)):
        checked = files([os.fspath(data)])
        return Report(checked.seen[0] if checked.seen else Seen(os.fspath(data), "target"), checked.findings)
    seen = objects.see(data, name)
    return Report(seen, judging.judge([seen], [], [], []))


@dataclass(frozen=True)
class Comparison:
    """What an augmentation changed that it should not; `print(comparison)` shows it."""

    differences: list[str]

    @property
    def ok(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        return "\n".join(self.differences) if self.differences else "alike in type, range and share of NaN"


def compare(raw: Any, augmented: Any) -> Comparison:
    """Raw and augmented data side by side: type, shape, range, spread and share of NaN or Inf."""
    one, other = _sampled(raw), _sampled(augmented)
    for word, side in (("raw", one), ("augmented", other)):
        if not any(len(array) for array in side.values()):
            raise ValueError(f"{word}: data with at least one row was expected; received none")
    found = [f"{name}: missing after augmentation" for name in one if name not in other]
    for name, before in one.items():
        if name in other:
            found += [f"{name}: {words}" for words in _differences(before, other[name])]
    return Comparison(found)


def _sampled(data: Any) -> dict[str, Any]:
    """Up to a few thousand rows of everything in it, by name."""
    if objects.is_whole(data):
        return {name: array[:ROWS] for name, array in objects.leaves(data)}
    parts: dict[str, list[Any]] = {}
    rows = 0
    for element in objects.elements(data):
        for name, array in objects.leaves(element):
            parts.setdefault(name, []).append(array)
        rows += max((len(array) for _, array in objects.leaves(element)), default=1)
        if rows >= ROWS:
            break
    joined = {}
    for name, arrays in parts.items():
        kept = [array for array in arrays if array.shape[1:] == arrays[0].shape[1:]]
        joined[name] = np.concatenate(kept)
    return joined


def _differences(before: Any, after: Any) -> list[str]:
    found = []
    if before.dtype != after.dtype:
        found.append(f"{before.dtype} became {after.dtype}")
    if before.shape[1:] != after.shape[1:]:
        found.append(f"rows of shape {before.shape[1:]} became {after.shape[1:]}")
    was, now = np.asarray(before, np.float64), np.asarray(after, np.float64)
    bad_before, bad_after = float((~np.isfinite(was)).mean()), float((~np.isfinite(now)).mean())
    if bad_after > bad_before:
        found.append(f"{bad_after:.2%} NaN or Inf, {bad_before:.2%} before")
    was, now = was[np.isfinite(was)], now[np.isfinite(now)]
    if not was.size or not now.size:
        return found
    reach = max(was.max() - was.min(), 1e-12)
    if now.min() < was.min() - 0.5 * reach or now.max() > was.max() + 0.5 * reach:
        found.append(f"{now.min():.4g} to {now.max():.4g}, where it was {was.min():.4g} to {was.max():.4g}")
    elif not 1 / TIMES < max(now.std(), 1e-12) / max(was.std(), 1e-12) < TIMES:
        found.append(f"a spread of {now.std():.3g}, where it was {was.std():.3g}")
    return found


def clean(dataset: Any, how: str | float = "mean") -> Any:
    """A tf.data pipeline without NaN and Inf: `mean` or a number in their place, or `drop` the samples.

    It runs inside the graph. The mean is that of the finite values, by feature, of up to 10,000 rows.
    """
    number = isinstance(how, (int, float)) and not isinstance(how, bool) and np.isfinite(how)
    if not (how in ("mean", "drop") or number):
        raise ValueError(f"how: mean, drop or a finite number was expected; received {how!r}")
    if not hasattr(dataset, "element_spec"):
        raise TypeError(f"a tf.data.Dataset was expected; received {type(dataset).__name__}")
    tf = import_module("tensorflow")
    flat = tf.nest.flatten(dataset.element_spec)
    floats = [
        index for index, spec in enumerate(flat) if getattr(spec, "dtype", None) is not None and spec.dtype.is_floating
    ]
    batched = _is_batched(dataset)
    stand_in = _means(dataset, floats, batched, tf) if how == "mean" else dict.fromkeys(floats, how)

    def finite(leaf: Any) -> Any:
        entries = tf.math.is_finite(leaf)
        if not batched:
            return tf.reduce_all(entries)
        return tf.reduce_all(tf.reshape(entries, (tf.shape(leaf)[0], -1)), axis=1)

    def is_good(*element: Any) -> Any:
        leaves = tf.nest.flatten(element)
        found = finite(leaves[floats[0]])
        for index in floats[1:]:
            found = tf.logical_and(found, finite(leaves[index]))
        return found

    def without(*element: Any) -> Any:
        good = is_good(*element)
        return tf.nest.map_structure(lambda leaf: tf.boolean_mask(leaf, good), _whole(element))

    def replaced(*element: Any) -> Any:
        leaves = tf.nest.flatten(element)
        for index in floats:
            other = tf.cast(stand_in[index], leaves[index].dtype)
            leaves[index] = tf.where(tf.math.is_finite(leaves[index]), leaves[index], other)
        return _whole(tf.nest.pack_sequence_as(element, leaves))

    if not floats:
        return dataset
    if how != "drop":
        return dataset.map(replaced, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.map(without, num_parallel_calls=tf.data.AUTOTUNE) if batched else dataset.filter(is_good)


def _whole(element: tuple[Any, ...]) -> Any:
    """tf.data hands a tuple's parts over one by one, and a single tensor alone."""
    return element if len(element) > 1 else element[0]


def _is_batched(dataset: Any) -> bool:
    stage = dataset
    while stage is not None:
        if "Batch" in type(stage).__name__ and "Unbatch" not in type(stage).__name__:
            return True
        inputs = stage._inputs()
        stage = inputs[0] if inputs else None
    return False


def _means(dataset: Any, floats: list[int], batched: bool, tf: Any) -> dict[int, Any]:
    seen = {index: Columns("", "float64") for index in floats}
    shapes: dict[int, Any] = {}
    rows = 0
    for element in dataset:
        leaves = tf.nest.flatten(element)
        for index in floats:
            values = leaves[index].numpy()
            values = values if batched else values[None]
            shapes.setdefault(index, values.shape[1:])
            if values.shape[1:] == shapes[index]:
                seen[index].add_up(values.reshape(len(values), -1))
            rows_here = len(values)
        rows += rows_here if floats else 1
        if rows >= ROWS:
            break
    found = {}
    for index in floats:
        sums, counts = seen[index].sums, seen[index].counts
        if sums is None or counts is None:
            found[index] = 0.0
        else:
            found[index] = (sums / np.maximum(counts, 1)).reshape(shapes[index])
    return found
