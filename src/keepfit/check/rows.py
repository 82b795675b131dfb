"""Hashes of rows: what comes twice in a file, and what is in two files. They go to disk when they are many."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .columns import Matrix

PARTS = 64  # files that hashes are spread over, by their first bits
IN_MEMORY = 1 << 20  # hashes of a part that are held before they are written
SHOWN = 3


def hashes_of(block: Matrix) -> NDArray[np.uint64]:
    """A 64-bit hash of every row: words times random odd numbers, summed (multilinear hashing), and mixed."""
    rows = len(block)
    raw = np.ascontiguousarray(block).view(np.uint8).reshape(rows, -1)
    short = -raw.shape[1] % 8
    if short:
        raw = np.pad(raw, ((0, 0), (0, short)))
    words = raw.view(np.uint64)
    total: NDArray[np.uint64] = words @ _odd(words.shape[1])
    total ^= total >> np.uint64(29)
    total *= np.uint64(0xBF58476D1CE4E5B9)
    return total


def _odd(count: int) -> NDArray[np.uint64]:
    drawn: NDArray[np.uint64] = np.random.default_rng(20260101).integers(0, 1 << 63, count, dtype=np.uint64)
    drawn |= np.uint64(1)
    return drawn


@dataclass
class Rows:
    """The hashes of one file's rows, with their numbers."""

    name: str
    count: int = 0
    _folder: tempfile.TemporaryDirectory[str] | None = None
    _held: list[list[NDArray[np.uint64]]] = field(default_factory=lambda: [[] for _ in range(PARTS)])
    _sizes: list[int] = field(default_factory=lambda: [0] * PARTS)

    def add(self, start: int, block: Matrix) -> None:
        found = hashes_of(block)
        pairs = np.stack([found, np.arange(start, start + len(found), dtype=np.uint64)], axis=1)
        part_of = (found >> np.uint64(58)).astype(np.intp)
        order = np.argsort(part_of, kind="stable")
        edges = np.searchsorted(part_of[order], np.arange(PARTS + 1))
        for part in range(PARTS):
            chosen = pairs[order[edges[part] : edges[part + 1]]]
            if len(chosen):
                self._held[part].append(chosen)
                self._sizes[part] += len(chosen)
        self.count += len(found)
        if sum(self._sizes) > IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="keepfit-rows-")
        for part, held in enumerate(self._held):
            if held:
                with open(os.path.join(self._folder.name, str(part)), "ab") as file:
                    np.concatenate(held).tofile(file)
                self._held[part], self._sizes[part] = [], 0

    def part(self, number: int) -> NDArray[np.uint64]:
        """(hash, row) pairs, sorted by hash."""
        found = [*self._held[number]]
        path = os.path.join(self._folder.name, str(number)) if self._folder is not None else ""
        if path and os.path.exists(path):
            found.insert(0, np.fromfile(path, np.uint64).reshape(-1, 2))
        pairs = np.concatenate(found) if found else np.zeros((0, 2), np.uint64)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    def twice(self) -> tuple[int, list[tuple[int, int]]]:
        """(how many rows were there before, a few of them with the first one they are equal to)."""
        total, shown = 0, list[tuple[int, int]]()
        for number in range(PARTS):
            pairs = self.part(number)
            same = np.flatnonzero(pairs[1:, 0] == pairs[:-1, 0]) if len(pairs) else np.zeros(0, np.intp)
            total += len(same)
            for index in same[: SHOWN - len(shown)]:
                shown.append((int(pairs[index + 1, 1]), int(pairs[index, 1])))
        return total, sorted(shown)

    def shared_with(self, other: Rows) -> tuple[int, list[tuple[int, int]]]:
        """(how many of our rows are in the other too, a few of them with the other's row)."""
        total, shown = 0, list[tuple[int, int]]()
        for number in range(PARTS):
            ours, theirs = self.part(number), other.part(number)
            if not len(ours) or not len(theirs):
                continue
            at = np.searchsorted(theirs[:, 0], ours[:, 0])
            at = np.minimum(at, len(theirs) - 1)
            both = np.flatnonzero(theirs[at, 0] == ours[:, 0])
            total += len(both)
            for index in both[: SHOWN - len(shown)]:
                shown.append((int(ours[index, 1]), int(theirs[at[index], 1])))
        return total, sorted(shown)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def pairs_of(found: list[Rows]) -> Iterator[tuple[Rows, Rows]]:
    for index, one in enumerate(found):
        for other in found[index + 1 :]:
            yield other, one
