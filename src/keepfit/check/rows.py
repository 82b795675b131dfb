"""Hashes of rows: what comes twice in a file, and what is in two files. They go to disk when they are many."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from .columns import Matrix

IN_MEMORY = 1 << 20  # hashes that are held before they are written
AT_ONCE = 1 << 22  # hashes that are sorted at once: those of one range of values
SHOWN = 3

Hashes = NDArray[np.uint64]


def hashes_of(block: Matrix) -> Hashes:
    """A 64-bit hash of every row: words times random odd numbers, summed (multilinear hashing), and mixed."""
    rows = len(block)
    raw = np.ascontiguousarray(block).view(np.uint8).reshape(rows, -1)
    short = -raw.shape[1] % 8
    if short:
        raw = np.pad(raw, ((0, 0), (0, short)))
    words = raw.view(np.uint64)
    total: Hashes = words @ _odd(words.shape[1])
    total ^= total >> np.uint64(29)
    total *= np.uint64(0xBF58476D1CE4E5B9)
    return total


def _odd(count: int) -> Hashes:
    drawn: Hashes = np.random.default_rng(20260101).integers(0, 1 << 63, count, dtype=np.uint64)
    drawn |= np.uint64(1)
    return drawn


def of_columns(columns: list[Hashes]) -> Hashes:
    """The hash of every row of a table, from those of its cells."""
    total = np.zeros(len(columns[0]), np.uint64)
    for number, factor in enumerate(_odd(len(columns))):
        total += columns[number] * factor
    total ^= total >> np.uint64(29)
    return total


class Rows:
    """The hashes of one file's rows, in their order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self._held: list[Hashes] = []
        self._waiting = 0
        self._file: IO[bytes] | None = None

    def add(self, block: Matrix) -> None:
        self.add_hashes(hashes_of(block))

    def add_hashes(self, found: Hashes) -> None:
        self._held.append(found)
        self.count += len(found)
        self._waiting += len(found)
        if self._waiting > IN_MEMORY:
            self._spill()

    def forget(self) -> None:
        """The file is read once more from its start."""
        self.count, self._held, self._waiting = 0, [], 0
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="keepfit-rows-")  # noqa: SIM115 (closed by `close`)
        for found in self._held:
            found.tofile(self._file)
        self._held, self._waiting = [], 0

    def _all(self) -> Iterator[Hashes]:
        """Every hash, in the order of the rows, a chunk at a time."""
        if self._file is not None:
            self._file.seek(0)
            while len(found := np.fromfile(self._file, np.uint64, IN_MEMORY)):
                yield found
            self._file.seek(0, 2)
        yield from self._held

    def within(self, low: int, high: int) -> Hashes:
        """The hashes from `low` to below `high`, sorted."""
        kept = [found[(found >= low) & (found <= high - 1)] for found in self._all()]
        joined = np.concatenate(kept) if kept else np.zeros(0, np.uint64)
        joined.sort()
        return joined

    def places(self, wanted: Hashes) -> dict[int, list[int]]:
        """{hash: its first rows} of a few."""
        found: dict[int, list[int]] = {int(value): [] for value in wanted}
        start = 0
        for chunk in self._all():
            for index in np.flatnonzero(np.isin(chunk, wanted)):
                rows = found[int(chunk[index])]
                if len(rows) < 2:
                    rows.append(start + int(index))
            start += len(chunk)
        return found

    def twice(self) -> tuple[int, list[tuple[int, int]]]:
        """(how many rows were there before, a few of them with the first one they are equal to)."""
        total, some = 0, np.zeros(0, np.uint64)
        for low, high in ranges(self.count):
            found = self.within(low, high)
            same = found[1:][found[1:] == found[:-1]]
            total += len(same)
            some = np.unique(np.concatenate([some, same[: SHOWN * 4]]))[:SHOWN]
        shown = [(rows[1], rows[0]) for rows in self.places(some).values() if len(rows) > 1] if len(some) else []
        return total, sorted(shown)

    def shared_with(self, other: Rows) -> tuple[int, list[tuple[int, int]]]:
        """(how many of our rows are in the other too, a few of them with the other's row)."""
        total, some = 0, np.zeros(0, np.uint64)
        for low, high in ranges(max(self.count, other.count)):
            ours, theirs = self.within(low, high), other.within(low, high)
            both = ours[np.isin(ours, theirs)]
            total += len(both)
            some = np.unique(np.concatenate([some, both[: SHOWN * 4]]))[:SHOWN]
        if not len(some):
            return total, []
        here, there = self.places(some), other.places(some)
        return total, sorted((rows[0], there[value][0]) for value, rows in here.items())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def ranges(count: int) -> Iterator[tuple[int, int]]:
    """Ranges of hashes, each with about as many as are sorted at once."""
    parts = max(1, -(-count // AT_ONCE))
    edges = [(1 << 64) * part // parts for part in range(parts + 1)]
    return itertools.pairwise(edges)


def pairs_of(found: list[Rows]) -> Iterator[tuple[Rows, Rows]]:
    for index, one in enumerate(found):
        for other in found[index + 1 :]:
            yield other, one
