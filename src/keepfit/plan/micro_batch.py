"""Choosing the micro-batch: from an estimate, two measurements and a line through them.

The need of a step is close to linear in the rows computed at once. Everything here is a pure function of
what was measured; the agent measures, the supervisor asks these functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..quick import dataclass

TARGET = 0.92  # of the limit: where a chosen micro-batch may peak
NOISE = 16 << 20  # bytes: two measurements that differ by less tell nothing of a slope
RESERVE = 64 << 20  # and at least so many bytes below it: allocators are not exact, however small the limit
STATES = 0.125  # of the limit may be left free for them
LEFT = 0.5  # of what a step leaves free whatever its rows: may be used where that alone is beyond the target
DOUBT = 2.0  # an estimate from the graph is trusted to this factor
WHOLE = 0.85  # of the target: the whole batch is far from what was measured, and is taken only with room to spare
FIRST_SHARE = 0.08  # of the room may go into the first trial, by the estimate
SECOND_SHARE = 0.40  # and into the second
FAR = 4  # times the largest trial: beyond that a line without an estimate beside it is a guess
FASTER = 0.95  # a smaller micro-batch is taken if it needs at most this much of the time for a row
CLIMBING = 0.96  # of the limit: beyond this the micro-batch is made smaller between two steps


@dataclass(frozen=True)
class Room:
    """The memory there is: bytes."""

    limit: int
    others: int  # used by processes of the run other than the one that trains
    saving: int = 0  # that a state needs beside what a step has used

    @property
    def taken(self) -> int:
        """What is not there for steps. States are left their room where that is small: a training that crawls in tiny
        micro-batches loses more by it than by a death."""
        return self.others + (self.saving if self.saving <= STATES * self.limit else 0)

    @property
    def target(self) -> int:
        """What the training process may use at its peak."""
        return min(int(self.limit * TARGET), self.limit - RESERVE) - self.taken

    def target_from(self, base: float) -> int:
        """The same where a step needs `base` whatever its rows: the smallest micro-batch is the slowest, and
        saves next to nothing there."""
        return max(self.target, int(base + LEFT * max(0.0, self.limit - self.taken - base)))


@dataclass(frozen=True)
class Estimate:
    """What the traced graph tells of a step, above what is in use already."""

    whole: int  # bytes for the whole batch
    one: int  # bytes for a single row

    def per_row(self, rows: int) -> float:
        return max(1.0, (self.whole - self.one) / max(1, rows - 1))


@dataclass(frozen=True)
class Trial:
    """One measured micro-batch: rows, the peak of the process, how long it took, how far its steps' peaks lie apart."""

    rows: int
    peak: int
    seconds: float = 0.0
    spread: int = 0


@dataclass(frozen=True)
class Line:
    """Peak = base + rows x slope, in bytes."""

    base: float
    slope: float

    def peak(self, rows: int) -> int:
        return int(self.base + rows * self.slope)

    def largest(self, target: int) -> int:
        """The most rows whose peak stays below the target; 0 where not even one does."""
        return max(0, int((target - self.base) / self.slope))


def is_comfortable(room: Room, in_use: int, estimate: Estimate) -> bool:
    """Whether the whole batch fits even if the estimate is wrong by its doubt."""
    return in_use + DOUBT * estimate.whole <= room.target


def first_trial(room: Room, in_use: int, rows: int, estimate: Estimate | None) -> int:
    """A micro-batch small enough to be safe whatever it turns out to need."""
    if estimate is None:
        return max(1, rows // 64)
    free = max(0, room.target - in_use - estimate.one)
    return _within(int(FIRST_SHARE * free / estimate.per_row(rows)), 1, max(1, rows // 4))


def second_trial(room: Room, in_use: int, first: Trial, rows: int, estimate: Estimate | None) -> int:
    """A larger one, for the slope: as large as the first, or the estimate, says is still safe."""
    grown = max(1.0, (first.peak - in_use) / first.rows)  # what the runtime takes once is in it: an upper bound
    per_row = DOUBT * estimate.per_row(rows) if estimate is not None else grown
    more = int(SECOND_SHARE * max(0, room.target - first.peak) / per_row)
    return _within(first.rows + more, first.rows + 1, max(first.rows + 1, rows // 2))


def line(trials: Sequence[Trial], rows: int, estimate: Estimate | None) -> Line:
    """The line through the two trials; a slope that may have drowned in noise is the estimate's, within its doubt."""
    first, second = trials[0], trials[-1]
    slope = (second.peak - first.peak) / max(1, second.rows - first.rows)
    if estimate is not None:
        drowned = second.peak - first.peak < NOISE
        per_row = estimate.per_row(rows)
        slope = _between(slope, per_row, DOUBT * per_row) if drowned else max(slope, 0.25 * per_row)
    slope = max(slope, 1.0)
    return Line(second.peak - slope * second.rows, slope)


def choose(room: Room, rows: int, known: Line, at_most: int | None = None) -> int:
    """The largest micro-batch that stays below the target, in as few and as equal parts as can be.

    `rows` itself means the whole batch. At least one row: whether that fits, the run will tell.
    """
    target = room.target_from(known.base)
    most = min(rows, at_most or rows, max(1, known.largest(target)))
    if most == rows > 1 and known.peak(rows) > WHOLE * target:
        most = rows - 1
    parts = -(-rows // most)
    return -(-rows // parts)


def faster(trial: Trial, chosen: Trial) -> bool:
    """Whether the smaller micro-batch of a trial is worth taking for its speed."""
    if not (trial.seconds and chosen.seconds) or trial.rows >= chosen.rows:
        return False
    return trial.seconds / trial.rows <= FASTER * chosen.seconds / chosen.rows


def corrected(known: Line, seen: Trial) -> Line:
    """The line after a real step: where that needed more than predicted, so will the others."""
    return Line(max(known.base, seen.peak - seen.rows * known.slope), known.slope)


def given_back(rows: int, batch: int, known: Line | None, estimate: Estimate | None) -> float:
    """Bytes by which half as many rows at once would lower the peak; as good as everything where nothing is known."""
    slope = known.slope if known is not None else estimate.per_row(batch) if estimate is not None else float("inf")
    return slope * (rows - rows // 2) if rows > 1 else 0.0


def smaller(room: Room, used: int, attempt: int, known: Line | None, reached: int) -> int | None:
    """After a death at the line with `used` rows at once: the next to try, None where nothing is left to change.

    By the line, less what the run needed beyond it; between a half and an eighth of what died, the second time
    between an eighth and a single row, so that the second attempt after a death is the last that can be wrong.
    """
    if used <= 1:
        return None
    most, least = (used // 2, used // 8) if attempt <= 1 else (used // 8, 1)
    if known is None:
        return max(1, most) if attempt <= 1 else 1
    beyond = max(0, reached - known.peak(used))
    return max(1, _within(known.largest(room.target - beyond), least, most))


def _between(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


def _within(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))
