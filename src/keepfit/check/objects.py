"""Python objects: arrays, frames, datasets and generators of batches, looked at element by element."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from .arrays import blocks
from .columns import Columns
from .sources import Looking
from .summary import Seen

MOST = 1_000_000  # elements of something that may have no end


def see(data: Any, name: str = "data") -> Seen:
    """What is in it. Arrays (alone, in tuples or dicts) are rows; anything else is iterated over."""
    seen, look = Seen(name, "target", read=True), Looking().look(name)
    known: dict[str, Columns] = {}

    def add(path: str, array: Any, start: int) -> None:
        columns = known.get(path)
        if columns is None:
            columns = known[path] = Columns(path, array.dtype.name, tuple(array.shape[1:]))
            seen.columns.append(columns)
        elif columns.dtype != array.dtype.name:
            _once(seen, "type", f"{path} is {array.dtype.name} after {start} rows, and {columns.dtype} before")
            return
        elif columns.shape != tuple(array.shape[1:]):
            if len(columns.shape) != array.ndim - 1:
                _once(
                    seen,
                    "shape",
                    f"{path} has rows of shape {array.shape[1:]} after {start} rows, {columns.shape} before",
                )
            return
        for begin, block in blocks(array):
            look(columns, start + begin, block)

    if is_whole(data):
        for path, array in leaves(data):
            add(path, array, 0)
            seen.rows = max(seen.rows, len(array))
        return _doubted(seen, data)
    for element in islice(elements(data), MOST):
        found = leaves(element)
        for path, array in found:
            add(path, array, seen.rows)
        seen.rows += max((len(array) for _, array in found), default=0)
    return _doubted(seen, data)


def _doubted(seen: Seen, data: Any) -> Seen:
    """Nothing seen is not the same as nothing wrong."""
    if not seen.columns:
        seen.problem("empty", f"holds nothing that could be looked at ({type(data).__name__})")
    elif not seen.rows:
        seen.problem("empty", "holds no rows")
    return seen


def _once(seen: Seen, kind: str, message: str) -> None:
    if not any(problem.kind == kind for problem in seen.problems):
        seen.problem(kind, message)


def is_whole(data: Any) -> bool:
    if isinstance(data, dict):
        return all(_is_array(value) for value in data.values())
    if isinstance(data, (tuple, list)):
        return bool(data) and all(_is_array(value) or is_whole(value) for value in data)
    return _is_array(data)


def _is_array(value: Any) -> bool:
    return (hasattr(value, "dtype") and hasattr(value, "shape")) or hasattr(value, "columns")


def elements(data: Any) -> Iterator[Any]:
    """A dataset's batches: a Keras PyDataset by its index, anything else by iteration."""
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "_inputs"):
        return (data[index] for index in range(len(data)))
    if not hasattr(data, "__iter__"):
        raise TypeError(
            f"arrays, a DataFrame, a dataset or batches to iterate over were expected; received {type(data).__name__}"
        )
    return iter(data)


def leaves(element: Any, path: str = "") -> list[tuple[str, Any]]:
    """(name, array with rows) of everything that holds numbers."""
    if hasattr(element, "columns") and hasattr(element, "to_numpy"):
        return [pair for name in element.columns for pair in leaves(element[name].to_numpy(), str(name))]
    if isinstance(element, dict):
        return [
            pair for key, value in element.items() for pair in leaves(value, f"{path}[{key!r}]" if path else str(key))
        ]
    if isinstance(element, (tuple, list)) and not all(isinstance(value, (int, float)) for value in element):
        names = ("x", "y", "sample_weight") if not path and len(element) <= 3 else None
        found = []
        for index, value in enumerate(element):
            found += leaves(value, names[index] if names else f"{path}[{index}]")
        return found
    try:
        array = np.asarray(element.numpy() if hasattr(element, "numpy") else element)
    except Exception:  # sparse, ragged, a class of the user's own
        return []
    if array.dtype.kind not in "biuf":
        return []
    return [(path or "data", array if array.ndim else array.reshape(1))]
