"""The largest batch that fits: which sizes are worth trying, and what a trial of them says.

Every trial is a real one, in a process of its own inside the limit. The first stays a little below what the line
promises, so that it does not fail; it makes the line exact enough for the second to come close to the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .forecast import Facts, line
from .micro_batch import Line, Trial

CAREFUL = 0.88  # of the limit: what the first trial may need by the line of two small batches
CLOSE = 0.965  # of the limit: what the second may, by a line that was corrected
TRIALS = 2
WORTH = 1.02  # times what is known to fit: less is no gain


@dataclass(frozen=True)
class Wanted:
    """What the person asked for."""

    limit: int  # bytes, less what is to be left free
    multiple: int = 1
    most: int | None = None

    def rounded(self, rows: int) -> int:
        rows = min(rows, self.most) if self.most else rows
        return rows - rows % self.multiple


def next_size(
    facts: Facts, trials: Sequence[Trial], verified: Sequence[Trial], wanted: Wanted, overshot: Sequence[int] = ()
) -> int:
    """The rows to verify next; 0: nothing more is to be gained, or the trials are used up.

    `overshot` are sizes that came to the limit: then it is half-way between that and what did not.
    """
    known = line(facts, [*trials, *verified][-2:])
    if known is None or len(verified) + len(overshot) >= TRIALS:
        return 0
    if overshot:
        return wanted.rounded((max(trial.rows for trial in (*trials, *verified)) + min(overshot)) // 2)
    share = CLOSE if verified else CAREFUL
    if verified:  # so close to the limit a row is reckoned with all that a row has taken so far, the fixed part in it
        last = verified[-1]
        slope = max(known.slope, (last.peak - facts.in_use) / last.rows)
        known = Line(last.peak - slope * last.rows, slope)
    rows = wanted.rounded(fitting(facts, known, int(wanted.limit * share)))
    best = largest(facts, verified, wanted)
    return rows if rows >= 1 and rows >= WORTH * best and rows not in {trial.rows for trial in verified} else 0


def fitting(facts: Facts, known: Line, bytes_at_most: int) -> int:
    """The most rows whose peak stays below so many bytes."""
    return known.largest(bytes_at_most - facts.later)


def largest(facts: Facts, verified: Sequence[Trial], wanted: Wanted) -> int:
    """The largest that was tried and fits, with what the pipeline will hold later; 0 where none does."""
    return max((trial.rows for trial in verified if trial.peak + facts.later <= wanted.limit), default=0)
