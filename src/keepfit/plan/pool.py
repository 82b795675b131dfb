"""TensorFlow's pool of host memory, played through: what steps of other rows would leave resident.

With oneDNN's kernels (x86-64) tensors lie in regions that only grow, each new one twice as large as the last; a free
piece is taken whole unless it is twice too large, and nothing goes back to the system. So what a step needs jumps where
its tensors outgrow their places, and no line through smaller batches tells where. What steps of one size have taken
and given back, in their order, is played again with another. (The rules are those of TensorFlow's bfc_allocator.cc.)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ..quick import dataclass

PIECE = 256  # bytes: sizes are multiples of it
LEAST = 256 << 10  # bytes: smaller ones are malloc's
FIRST = 2 << 20  # bytes of the first region
WASTED = 128 << 20  # bytes: a piece that is too large by more is cut, whatever its size


@dataclass(frozen=True)
class Steps:
    """What some steps of so many rows took and gave back; what lay there before them and was given back comes first."""

    rows: int
    kept: tuple[int, ...]  # bytes of what lies there all the time: each variable, and the arrays
    events: tuple[tuple[int, int, str], ...]  # (number, bytes and operation of what is taken; 0 bytes: given back)

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Steps:
        names = event["names"]
        before, events = (
            [(int(number), int(size), str(names[name])) for number, size, name in event[part]]
            for part in ("before", "events")
        )
        known = Pool()
        for size in (*event["variables"], *(size for _, size, _ in before)):
            known.take(size)
        rest = max(0, int(event["lying"]) - known.in_use)  # of which no more is known than that it lay there
        return cls(int(event["rows"]), (*event["variables"], rest), (*before, *events))


class Replay:
    """Steps of which it is known what goes by their rows: what is not of the same size in those of another number.

    Without others to compare with, what is as large as a variable is taken for fixed.
    """

    def __init__(self, steps: Steps, other: Steps | None = None) -> None:
        self._kept = steps.kept
        fixed: dict[str, set[int]] = defaultdict(set if other is not None else lambda: set(steps.kept))
        for _, size, name in other.events if other is not None else ():
            fixed[name].add(size)
        self._moves = [
            _Move(number, bool(size), *((size, 0.0) if size in fixed[name] else (0, size / steps.rows)))
            for number, size, name in steps.events
        ]
        self.resident = lru_cache(maxsize=None)(self._resident)

    def _resident(self, *sizes: int) -> int:
        """Bytes in memory at most, with so many rows, or with several sizes behind one another in the same process."""
        pool = Pool()
        for size in self._kept:
            pool.take(size)
        elsewhere = [self._played(pool, rows) for rows in sizes]
        return pool.resident + elsewhere[-1]  # what lay there of the sizes before can be given back

    def _played(self, pool: Pool, rows: int) -> int:
        """Bytes that lay elsewhere at most: of pieces that are too small for the pool."""
        taken: dict[int, _Piece] = {}
        small: dict[int, int] = {}
        lying = most = 0
        for move in self._moves:
            size = int(move.fixed + move.each * rows)
            if not move.takes:
                if move.number in taken:
                    pool.give_back(taken.pop(move.number))
                lying -= small.pop(move.number, 0)
            elif piece := pool.take(size):
                taken[move.number] = piece
            else:
                small[move.number] = size
                lying += size
                most = max(most, lying)
        for piece in taken.values():
            pool.give_back(piece)
        return most


class _Move(NamedTuple):
    """Something is taken, or given back."""

    number: int
    takes: bool
    fixed: int  # bytes
    each: float  # bytes a row


class _Piece:
    """Of a region: where it begins, its size, and its neighbours."""

    __slots__ = ("after", "at", "before", "free", "region", "size")

    def __init__(self, region: int, at: int, size: int) -> None:
        self.region, self.at, self.size = region, at, size
        self.free = False
        self.before: _Piece | None = None
        self.after: _Piece | None = None

    @property
    def order(self) -> tuple[int, int, int]:
        """In which free ones are looked through: the smallest first, then as they lie."""
        return self.size, self.region, self.at


class Pool:
    """The allocator itself."""

    def __init__(self) -> None:
        self._next = FIRST  # bytes of the next region
        self._touched: list[int] = []  # of each region: bytes from its beginning that were ever in use
        self._free: list[_Piece] = []  # by `order`
        self.in_use = 0  # bytes of pieces that are taken, each as large as it is

    @property
    def resident(self) -> int:
        return sum(self._touched)

    def take(self, size: int) -> _Piece | None:
        """None: it lies elsewhere."""
        if size < LEAST:
            return None
        size = -(-size // PIECE) * PIECE
        piece = self._found(size) or self._grown(size)
        if piece.size >= 2 * size or piece.size - size >= WASTED:
            self._cut(piece, size)
        self._touched[piece.region] = max(self._touched[piece.region], piece.at + size)
        self.in_use += piece.size
        return piece

    def give_back(self, piece: _Piece) -> None:
        """Neighbours that are free too become one with it."""
        self.in_use -= piece.size
        for other in (piece.after, piece.before):
            if other is not None and other.free:
                self._remove(other)
                first, second = sorted((piece, other), key=lambda each: each.at)
                first.size, first.after = first.size + second.size, second.after
                if second.after is not None:
                    second.after.before = first
                piece = first
        self._put(piece)

    def _found(self, size: int) -> _Piece | None:
        place = bisect_left(self._free, (size, -1, -1), key=lambda piece: piece.order)
        if place == len(self._free):
            return None
        piece = self._free.pop(place)
        piece.free = False
        return piece

    def _grown(self, size: int) -> _Piece:
        enough = self._next >= size
        while self._next < size:
            self._next *= 2
        piece = _Piece(len(self._touched), 0, self._next)
        self._touched.append(0)
        if enough:
            self._next *= 2
        return piece

    def _cut(self, piece: _Piece, size: int) -> None:
        rest = _Piece(piece.region, piece.at + size, piece.size - size)
        rest.before, rest.after = piece, piece.after
        if piece.after is not None:
            piece.after.before = rest
        piece.size, piece.after = size, rest
        self._put(rest)

    def _put(self, piece: _Piece) -> None:
        piece.free = True
        insort(self._free, piece, key=lambda each: each.order)

    def _remove(self, piece: _Piece) -> None:
        piece.free = False
        del self._free[bisect_left(self._free, piece.order, key=lambda each: each.order)]
