"""The largest batch that fits: which sizes are worth trying, and what a trial of them says.

Every trial is a real one, inside the limit. The process that has tried the forecast's small batches climbs on from
there, each time by less than what the line promises; what it learns brings two trials, each in a fresh process as the
training itself will be, close to the limit without going beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .forecast import FIRST, Facts, line
from .micro_batch import Line, Trial

CLIMBED = 0.9  # of the limit: as far as the climb goes
STRIDE, TRIED = 1.1, 4  # each size so many times the one before it, and so many in one process, small ones included
PATIENCE = 4.0  # seconds that a step of the climb may take: the limit may be far, and two trials are to come
TRIALS = 2
DROWNED = 256 << 20  # bytes: two peaks that differ by less do not tell what a row takes
# A further row may take so many times what the rows so far have taken: in the climb, and from there to a fresh process.
STEEPER = (1.25, 1.1)
# Where a row takes more than so many times what its graph keeps alive, further ones were seen to take still more (LSTM,
# GRU, U-Net).
EXPLAINED = 1.3
# The same batch may peak higher the next time: of the limit so much is left free by the first trial and the second, or
# half of what the steps of the one before differ by.
FREE = ((64 << 20, 0.1), (28 << 20, 0.02))  # (bytes, share)
WORTH = 1.02  # times what is known to fit: less is no gain


@dataclass(frozen=True)
class Wanted:
    """What the person asked for."""

    limit: int  # bytes, less what is to be left free
    multiple: int = 1
    most: int | None = None

    def of(self, facts: Facts) -> Wanted:
        """No more rows than there are in the data."""
        return replace(self, most=min((most for most in (self.most, facts.samples) if most), default=None))

    def rounded(self, rows: int) -> int:
        rows = min(rows, self.most) if self.most else rows
        return rows - rows % self.multiple


def next_size(
    facts: Facts,
    trials: Sequence[Trial],
    verified: Sequence[Trial],
    wanted: Wanted,
    overshot: Sequence[int] = (),
    climbed: Sequence[Trial] = (),
) -> int:
    """The rows to verify next; 0: nothing more is to be gained, or the trials are used up.

    `overshot` are sizes that came to the limit: then it is half-way between that and what did not.
    """
    tried = [*trials, *climbed, *verified]
    if not tried or len(verified) + len(overshot) >= TRIALS:
        return 0
    if overshot:
        return wanted.rounded((max(trial.rows for trial in tried) + min(overshot)) // 2)
    last = tried[-1]
    if verified:
        slope, steeper = _further(facts, trials, climbed, last), 1.0
    else:
        slope, steeper, last = _slope(facts, tried), STEEPER[1], _calm(last)
    least, share = FREE[len(verified)]
    free = max(least, int(share * wanted.limit), last.spread // 2)
    rows = wanted.rounded(_reaching(facts, last, slope, steeper, wanted.limit - free))
    if not verified and rows < 1:  # so little room that what was tried in small is most of it
        rows = wanted.rounded(largest(facts, trials, wanted))
    best = largest(facts, verified, wanted)
    return rows if rows >= 1 and rows >= WORTH * best and rows not in {trial.rows for trial in verified} else 0


def next_climb(facts: Facts, trials: Sequence[Trial], wanted: Wanted) -> int:
    """The rows that the process of the forecast tries next, behind its small ones; 0: it is near enough.

    Where the search has an end of its own (--max) there is nothing to climb for beyond it.
    """
    if not trials or len(trials) >= TRIED:
        return 0
    last = trials[-1]
    rows = _reaching(facts, last, _slope(facts, trials), STEEPER[0], int(CLIMBED * wanted.limit))
    rows = wanted.rounded(min(rows, int(PATIENCE * last.rows / max(last.seconds, 1e-9))))
    return rows if rows >= STRIDE * last.rows else 0


def _slope(facts: Facts, tried: Sequence[Trial]) -> float:
    """Bytes that a further row takes, by what the rows up to the last that was tried have taken."""
    first, last = min(tried, key=lambda trial: trial.rows), tried[-1]
    slope = _between(first, last)
    if last.peak - first.peak < DROWNED:  # in chance: so that the graph counts too
        known = line(facts, tried)
        slope = max(slope, known.slope if known is not None else 0.0)
    return slope


def _further(facts: Facts, trials: Sequence[Trial], climbed: Sequence[Trial], last: Trial) -> float:
    """The same beyond a fresh process' last: by its own rows, and by those of the other process, which holds more.

    As few rows as the small trials had say nothing of a further one: then it is the graph's and theirs.
    """
    if last.rows <= max((trial.rows for trial in trials), default=0):
        known = line(facts, trials)
        return known.slope if known is not None else 0.0
    took = (last.peak - facts.in_use - facts.model["trainable"] - FIRST) / last.rows
    slopes = [took, _between(min(trials, key=lambda trial: trial.rows), last)]
    if climbed:
        slopes.append(_between(trials[-1], _calm(climbed[-1])))
    counted = (facts.alive(2 * last.rows) - facts.alive(last.rows)) / last.rows
    return max(slopes) * max(1.0, took / (EXPLAINED * counted) if counted > 0 else 1.0)


def _calm(trial: Trial) -> Trial:
    """Without what only some of its steps had in malloc's hands from the sizes before it."""
    return replace(trial, peak=trial.peak - trial.spread // 2)


def _between(less: Trial, more: Trial) -> float:
    return (more.peak - less.peak) / (more.rows - less.rows) if more.rows > less.rows else 0.0


def _reaching(facts: Facts, last: Trial, slope: float, steeper: float, bytes_at_most: int) -> int:
    """The most rows that stay below, from the last that was tried, where a row may take so many times the slope.

    Down from a size that needed more, it is the gentler slope that is the careful one.
    """
    upwards = bytes_at_most - facts.later >= last.peak
    slope = max(1.0, slope * steeper if upwards else slope / steeper)
    return fitting(facts, Line(last.peak - slope * last.rows, slope), bytes_at_most)


def fitting(facts: Facts, known: Line, bytes_at_most: int) -> int:
    """The most rows whose peak stays below so many bytes."""
    return known.largest(bytes_at_most - facts.later)


def largest(facts: Facts, verified: Sequence[Trial], wanted: Wanted) -> int:
    """The largest that was tried and fits, with what the pipeline will hold later; 0 where none does."""
    return max((trial.rows for trial in verified if trial.peak + facts.later <= wanted.limit), default=0)
