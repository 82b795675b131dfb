"""A cleaned copy: statistics from the finite values only, the original untouched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from . import arrays, tables
from .columns import Columns, Matrix

HOW = ("mean", "median", "drop", "clip")
WIDE = 256  # columns: with more of them they are looked at in parts
BINS = 1 << 12  # of a histogram; three of them, one inside the other, find a median to the last bit of a float32
Blocks = Callable[[], Iterator[Matrix]]


class CannotFix(Exception):
    """Why, in a line."""


def fix(path: str, out: str, how: str) -> int:
    """Write the copy; the number of entries that were replaced (or rows that were dropped)."""
    if os.path.exists(out) and os.path.samefile(path, out):
        raise CannotFix(f"{out}: the original is never touched; name another file")
    suffix = os.path.splitext(path)[1].lower()
    writer = {".npy": _npy, ".csv": _table, ".parquet": _table, ".pq": _table}.get(suffix)
    if writer is None:
        raise CannotFix(f"{path}: only .npy, .csv and .parquet can be fixed")
    if os.path.splitext(out)[1].lower() != suffix:
        raise CannotFix(f"{out}: a {suffix} file was expected, as the original is")
    beside = f"{out}.{os.getpid()}.new"
    try:
        count = writer(path, beside, how)
        os.replace(beside, out)
    except CannotFix:
        raise
    except OSError as error:
        raise CannotFix(f"{out}: {error.strerror or error}") from None
    except Exception as error:
        said = (str(error).splitlines() or [""])[0][:120]
        raise CannotFix(f"{path} cannot be fixed ({type(error).__name__}: {said})") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)
    return count


def _npy(path: str, beside: str, how: str) -> int:
    array = arrays.mapped(path)
    if not array.size:
        raise CannotFix(f"{path}: holds no values")
    if array.dtype.kind != "f":
        raise CannotFix(f"{path}: {array.dtype.name} has no NaN and no Inf to fix")
    flat = array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(-1, 1)

    def blocks() -> Iterator[Matrix]:
        return (block for _, block in arrays.blocks(flat))

    stand_in = replacements(blocks, flat.shape[1], how)
    kept = sum(int(np.isfinite(block).all(axis=1).sum()) for block in blocks()) if how == "drop" else len(flat)
    count = 0
    with open(beside, "xb") as file:
        described = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(file, {**described, "shape": (kept, *array.shape[1:])})
        for block in blocks():
            cleaned, changed = clean(block, stand_in, how)
            count += changed
            cleaned.tofile(file)
        file.flush()
        os.fsync(file.fileno())
    return count


def _table(path: str, beside: str, how: str) -> int:
    first = next(_batches(path), None)
    if first is None:
        raise CannotFix(f"{path}: holds no rows")
    as_text = {field.name: pa.string() for field in first.schema if not pa.types.is_floating(field.type)}
    if path.endswith((".parquet", ".pq")):
        as_text = {}
    schema = next(_batches(path, as_text)).schema  # what is no float stays as it is written
    names = [field.name for field in schema if pa.types.is_floating(field.type)]

    def blocks() -> Iterator[Matrix]:
        for batch in _batches(path, as_text):
            yield np.stack([_floats(batch.column(name)) for name in names], axis=1)

    stand_in = replacements(blocks, len(names), how) if names else {}
    make = pa.parquet.ParquetWriter if path.endswith((".parquet", ".pq")) else pa.csv.CSVWriter
    count = 0
    with make(beside, schema) as writer:
        for batch in _batches(path, as_text):
            if names:
                block = np.stack([_floats(batch.column(name)) for name in names], axis=1)
                cleaned, changed = clean(block, stand_in, how)
                count += changed
                keep = np.isfinite(block).all(axis=1) if how == "drop" else None
                batch = batch.filter(pa.array(keep)) if keep is not None else batch
                for place, name in enumerate(names):
                    index = schema.get_field_index(name)
                    values = pa.array(cleaned[:, place], type=schema.field(index).type)
                    batch = batch.set_column(index, schema.field(index), values)
            writer.write_table(pa.Table.from_batches([batch], schema=schema))
    return count


def _batches(path: str, as_text: dict[str, Any] | None = None) -> Iterator[Any]:
    if path.endswith((".parquet", ".pq")):
        return iter(pa.parquet.ParquetFile(path, memory_map=True).iter_batches(batch_size=tables.ROWS))
    return iter(tables.batches(path, as_text or {}, []))


def _floats(column: Any) -> NDArray[np.float64]:
    """A missing value is to be replaced as a NaN is."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


# --- what takes their place ----------------------------------------------------------------------------------


def replacements(blocks: Blocks, width: int, how: str) -> dict[str, NDArray[np.float64]]:
    if how == "drop":
        return {}
    seen = Columns("", "float64", (width,))
    for block in blocks():
        seen.see(0, block)
        seen.add_up(block)
    assert seen.low is not None and seen.high is not None and seen.sums is not None and seen.counts is not None
    low, high = np.nan_to_num(seen.low.astype(np.float64)), np.nan_to_num(seen.high.astype(np.float64))
    if how == "clip":
        return {"low": low, "high": high}
    if how == "mean":
        return {"nan": seen.sums / np.maximum(seen.counts, 1)}
    return {"nan": medians(blocks, low, high, seen.counts) if width <= WIDE else exact_medians(blocks, width)}


def exact_medians(blocks: Blocks, width: int) -> NDArray[np.float64]:
    """Of very many columns, which have few rows: a part of them at a time."""
    found = np.zeros(width)
    for start in range(0, width, WIDE):
        part = np.concatenate([block[:, start : start + WIDE].astype(np.float64) for block in blocks()])
        part = np.sort(np.where(np.isfinite(part), part, np.inf), axis=0)
        middle = np.isfinite(part).sum(axis=0) // 2
        chosen = part[np.minimum(middle, len(part) - 1), np.arange(part.shape[1])]
        found[start : start + WIDE] = np.where(np.isfinite(chosen), chosen, 0.0)
    return found


def medians(
    blocks: Blocks, low: NDArray[np.float64], high: NDArray[np.float64], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of the finite values of every column: by a histogram, and one inside the bin that holds the middle, and again."""
    low, high = low.copy(), np.nextafter(high, np.inf)
    wanted = counts // 2  # values below the middle one
    below = np.zeros(len(low), np.int64)
    for _ in range(3):
        size = np.maximum((high - low) / BINS, np.finfo(np.float64).tiny)
        table = np.zeros((len(low), BINS), np.int64)
        for block in blocks():
            for column in range(len(low)):
                values = block[:, column].astype(np.float64)
                values = values[np.isfinite(values) & (values >= low[column]) & (values < high[column])]
                places = np.minimum(((values - low[column]) / size[column]).astype(np.int64), BINS - 1)
                table[column] += np.bincount(places, minlength=BINS)
        until = np.cumsum(table, axis=1) + below[:, None]
        bins = np.minimum((until <= wanted[:, None]).sum(axis=1), BINS - 1)
        columns = np.arange(len(low))
        below = np.where(bins > 0, until[columns, np.maximum(bins - 1, 0)], below)
        low, high = low + bins * size, low + (bins + 1) * size
    return low


def clean(block: Matrix, stand_in: dict[str, NDArray[np.float64]], how: str) -> tuple[Matrix, int]:
    """(the cleaned rows, how many entries were replaced or rows dropped)."""
    bad = ~np.isfinite(block)
    if how == "drop":
        keep = ~bad.any(axis=1)
        return np.ascontiguousarray(block[keep]), int((~keep).sum())
    if not bad.any():
        return np.ascontiguousarray(block), 0
    if how == "clip":
        limited = np.clip(block, stand_in["low"], stand_in["high"])
        return np.where(np.isinf(block), limited, block).astype(block.dtype), int(np.isinf(block).sum())
    return np.where(bad, stand_in["nan"], block).astype(block.dtype), int(bad.sum())
