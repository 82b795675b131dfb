"""What is seen of a column, chunk by chunk; a matrix is so many columns side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..quick import dataclass

WIDE = 1024  # entries: narrower rows are folded, so that the inner loop is worth it
FEW = 1000  # distinct values that are still counted one by one
SHOWN = 5  # rows that are named

Matrix = NDArray[Any]


@dataclass
class Bad:
    """Entries that are not finite."""

    nan: int = 0
    inf: int = 0
    first: list[tuple[int, int, str]] = field(default_factory=list)  # (row, column, value)

    @property
    def total(self) -> int:
        return self.nan + self.inf

    def see(self, start: int, block: Matrix) -> NDArray[np.bool_]:
        """Which entries of the rows from `start` on are not finite; the first ones are remembered."""
        bad: NDArray[np.bool_] = ~np.isfinite(block)
        self.nan += int(np.isnan(block).sum())
        self.inf += int(np.isinf(block).sum())
        for row, column in np.argwhere(bad)[: max(0, SHOWN - len(self.first))]:
            self.first.append((start + int(row), int(column), str(block[row, column])))
        return bad


@dataclass
class Columns:
    """Columns of one type: those of a matrix, or a single one of a table."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()  # of a row
    rows: int = 0
    null: int = 0
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None
    bad: Bad = field(default_factory=Bad)
    values: dict[Any, int] | None = field(default_factory=dict)  # None: too many to count
    numeric: int = 0  # of a text column: values that look like numbers
    odd_text: tuple[int, str] | None = None  # and the first that does not
    sums: NDArray[np.float64] | None = None  # of the finite entries, where they were asked for
    counts: NDArray[np.int64] | None = None

    @property
    def width(self) -> int:
        return int(np.prod(self.shape)) if self.shape else 1

    @property
    def is_number(self) -> bool:
        return self.dtype.startswith(("int", "uint", "float"))

    @property
    def is_looked_at(self) -> bool:
        """Whether anything is known of its values."""
        return self.is_number or self.dtype in ("string", "bool", "bytes") or self.dtype.startswith("complex")

    def label(self, column: int) -> str:
        """A column's name for people."""
        if not self.shape:
            return self.name
        place = np.unravel_index(column, self.shape)
        inner = ", ".join(str(int(i)) for i in place)
        return f"{self.name}[{inner}]" if self.name else f"feature {inner if len(place) == 1 else f'({inner})'}"

    # --- numbers ------------------------------------------------------------------------------------------

    def see(self, start: int, block: Matrix) -> None:
        """Rows from `start` on: an array of (rows, width)."""
        if block.dtype.kind == "c":  # a complex number is two
            block = np.ascontiguousarray(block).view(block.real.dtype)
        self.rows += len(block)
        if not block.size or block.dtype.kind not in "iufb":
            return
        low, high = extremes(block)
        if block.dtype.kind == "f" and not (np.isfinite(low).all() and np.isfinite(high).all()):
            low, high = self._see_bad(start, block)
        with np.errstate(invalid="ignore"):
            self.low = low if self.low is None else np.fmin(self.low, low)
            self.high = high if self.high is None else np.fmax(self.high, high)

    def _see_bad(self, start: int, block: Matrix) -> tuple[NDArray[Any], NDArray[Any]]:
        bad = self.bad.see(start, block)
        low = np.where(bad, np.inf, block).min(axis=0)
        high = np.where(bad, -np.inf, block).max(axis=0)
        none = bad.all(axis=0)
        return np.where(none, np.nan, low), np.where(none, np.nan, high)

    def add_up(self, block: Matrix) -> None:
        """Sums of the finite entries, for means."""
        if block.dtype.kind == "f":
            finite = np.isfinite(block)
            total, count = np.where(finite, block, 0).sum(axis=0, dtype=np.float64), finite.sum(axis=0)
        else:
            total, count = block.sum(axis=0, dtype=np.float64), np.full(block.shape[1], len(block))
        self.sums = total if self.sums is None else self.sums + total
        self.counts = count if self.counts is None else self.counts + count

    def count(self, values: Matrix) -> None:
        """Distinct values, as long as they are few."""
        if self.values is None or not len(values):
            return
        found, counts = np.unique(values, return_counts=True)
        if len(self.values) + len(found) > 2 * FEW:
            self.values = None
            return
        for value, number in zip(found.tolist(), counts.tolist(), strict=True):
            self.values[value] = self.values.get(value, 0) + number
        if len(self.values) > FEW:
            self.values = None

    def constant(self) -> Iterator[int]:
        """Columns that never change (and hold something)."""
        if self.low is None or self.high is None or self.rows < 2 or self.null or (self.bad.total and self.width == 1):
            return
        for column in np.flatnonzero((self.low == self.high) & ~np.isnan(self.low.astype(np.float64))):
            yield int(column)


def extremes(block: Matrix) -> tuple[NDArray[Any], NDArray[Any]]:
    """(least, largest) of every column; NaN where there is one."""
    rows, width = block.shape
    fold = WIDE // width if width else 0
    if fold > 1 and rows >= 2 * fold and block.flags.c_contiguous:
        whole = rows // fold * fold
        folded = block[:whole].reshape(whole // fold, fold * width)
        low = folded.min(axis=0).reshape(fold, width).min(axis=0)
        high = folded.max(axis=0).reshape(fold, width).max(axis=0)
        if whole < rows:
            low, high = np.minimum(low, block[whole:].min(axis=0)), np.maximum(high, block[whole:].max(axis=0))
        return low, high
    return block.min(axis=0), block.max(axis=0)
