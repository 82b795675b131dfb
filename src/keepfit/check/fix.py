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
Blocks = Callable[[], Iterator[Matrix]]


class CannotFix(Exception):
    """Why, in a line."""


def fix(path: str, out: str, how: str) -> int:
    """Write the copy; the number of entries that were replaced (or rows that were dropped)."""
    if os.path.exists(out) and os.path.samefile(path, out):
        raise CannotFix(f"{out}: the original is never touched; name another file")
    if os.path.exists(out) and not os.path.isfile(out):
        raise CannotFix(f"{out}: there is something that is no file")
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
        kind = "cannot be fixed" if array.dtype.kind == "c" else "has no NaN and no Inf to fix"
        raise CannotFix(f"{path}: {array.dtype.name} {kind}")
    flat = array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(-1, 1)

    def blocks() -> Iterator[Matrix]:
        return (block for _, block in arrays.blocks(flat))

    seen = Columns("", array.dtype.name, array.shape[1:])
    stand_in = replacements(blocks, flat.shape[1], how, lambda column: f"{path}: {seen.label(column)}")
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

    stand_in = replacements(blocks, len(names), how, lambda column: f"{path}: {names[column]}") if names else {}
    count = 0
    with _writer(path, beside, schema) as writer:
        for batch in _batches(path, as_text):
            if names:
                block = np.stack([_floats(batch.column(name)) for name in names], axis=1)
                cleaned, changed = clean(block, stand_in, how)
                count += changed
                keep = np.isfinite(block).all(axis=1) if how == "drop" else None
                batch = batch.filter(pa.array(keep)) if keep is not None else batch
                for place, name in enumerate(names):
                    index = schema.get_field_index(name)
                    missing = np.asarray(batch.column(index).is_null()) if how == "clip" else None
                    values = pa.array(cleaned[:, place], type=schema.field(index).type, mask=missing)
                    batch = batch.set_column(index, schema.field(index), values)
            writer.write_table(pa.Table.from_batches([batch], schema=schema))
    return count


def _writer(path: str, beside: str, schema: pa.Schema) -> Any:
    if path.endswith((".parquet", ".pq")):
        return pa.parquet.ParquetWriter(beside, schema)
    return pa.csv.CSVWriter(beside, schema, write_options=pa.csv.WriteOptions(quoting_style="needed"))


def _batches(path: str, as_text: dict[str, Any] | None = None) -> Iterator[Any]:
    if path.endswith((".parquet", ".pq")):
        return iter(pa.parquet.ParquetFile(path, memory_map=True).iter_batches(batch_size=tables.ROWS))
    return iter(tables.batches(path, as_text or {}, []))


def _floats(column: Any) -> NDArray[np.float64]:
    """A missing value is to be replaced as a NaN is."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


# --- what takes their place ----------------------------------------------------------------------------------


def replacements(
    blocks: Blocks, width: int, how: str, label: Callable[[int], str] = str
) -> dict[str, NDArray[np.float64]]:
    """`label`: a column's name, for one that has nothing to take a mean of."""
    if how == "drop":
        return {}
    seen = Columns("", "float64", (width,))
    with np.errstate(over="ignore"):
        for block in blocks():
            seen.see(0, block)
            seen.add_up(block)
    assert seen.low is not None and seen.high is not None and seen.sums is not None and seen.counts is not None
    if how != "clip" and not seen.counts.all():
        raise CannotFix(f"{label(int(np.flatnonzero(seen.counts == 0)[0]))} has no finite value to take a {how} of")
    if how == "clip" and (lost := (seen.counts == 0) & _has_infinity(blocks, width)).any():
        raise CannotFix(f"{label(int(np.flatnonzero(lost)[0]))} has no finite value to clip to")
    low, high = np.nan_to_num(seen.low.astype(np.float64)), np.nan_to_num(seen.high.astype(np.float64))
    if how == "clip":
        return {"low": low, "high": high}
    if how == "mean":
        return {"nan": _means(blocks, seen.sums, seen.counts)}
    return {"nan": medians(blocks, seen.counts) if width <= WIDE else exact_medians(blocks, width)}


def _has_infinity(blocks: Blocks, width: int) -> NDArray[np.bool_]:
    found = np.zeros(width, np.bool_)
    for block in blocks():
        found |= np.isinf(block).any(axis=0)
    return found


def _means(blocks: Blocks, sums: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the finite values; where their sum is too large for a float, they are divided before they are added."""
    many = np.maximum(counts, 1)
    if np.isfinite(sums).all():
        return sums / many
    found = np.zeros(len(sums))
    for block in blocks():
        found += (np.where(np.isfinite(block), block, 0) / many).sum(axis=0)
    return found


def exact_medians(blocks: Blocks, width: int) -> NDArray[np.float64]:
    """Of very many columns, which have few rows: a part of them at a time."""
    found = np.zeros(width)
    for start in range(0, width, WIDE):
        part = np.concatenate([block[:, start : start + WIDE].astype(np.float64) for block in blocks()])
        part = np.sort(np.where(np.isfinite(part), part, np.inf), axis=0)
        counts = np.isfinite(part).sum(axis=0)
        lower, upper = (part[rank, np.arange(part.shape[1])] for rank in _middle(counts))
        found[start : start + WIDE] = np.where(counts, _between(lower, upper), 0.0)
    return found


def _middle(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the two values in the middle; of an odd number it is one and the same."""
    return np.maximum(counts - 1, 0) // 2, np.maximum(counts, 1) // 2 - (counts == 0)


def _between(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return np.where(lower == upper, lower, lower / 2 + upper / 2)


def medians(blocks: Blocks, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of the finite values of every column, exactly: digit by digit of their bits, by a histogram of the next digit."""
    width = len(counts)
    ranks = np.stack(_middle(counts))
    prefix = np.zeros((2, width), np.uint64)
    for shift, bits in zip(_SHIFTS, _BITS, strict=True):
        table = np.zeros((2, width, 1 << bits), np.int64)
        for block in blocks():
            for column in range(width):
                values = block[:, column].astype(np.float64)
                keys = _keys(values[np.isfinite(values)])
                for which in (0, 1):
                    inside = keys[keys >> np.uint64(shift + bits) == prefix[which, column]] if shift < 52 else keys
                    digits = (inside >> np.uint64(shift)) & np.uint64((1 << bits) - 1)
                    table[which, column] += np.bincount(digits.astype(np.int64), minlength=1 << bits)
        until = np.cumsum(table, axis=2)
        digit = np.minimum((until <= ranks[:, :, None]).sum(axis=2), (1 << bits) - 1)
        before = np.take_along_axis(until, np.maximum(digit - 1, 0)[:, :, None], axis=2)[:, :, 0]
        ranks = ranks - np.where(digit > 0, before, 0)
        prefix = (prefix << np.uint64(bits)) | digit.astype(np.uint64)
    lower, upper = _values(prefix)
    return np.where(counts, _between(lower, upper), 0.0)


_BITS = (12, 12, 12, 12, 12, 4)
_SHIFTS = (52, 40, 28, 16, 4, 0)
_SIGN = np.uint64(1 << 63)


def _keys(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Whole numbers in the order of the values."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _values(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)


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
