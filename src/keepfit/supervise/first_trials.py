"""What the first process of a plan is asked to try: small batches for the forecast, then some towards the limit.

The graph's forecast is said before anything is tried, and what was measured in small follows within MEASURING seconds,
however slow a step is. Only where the largest batch is looked for the process goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ..conditions.reading import size
from ..facts import MemoryLimit
from ..plan import forecast, largest
from ..plan.forecast import Facts, Point
from ..plan.micro_batch import Trial
from ..plan.pace import affordable
from .earlier import EarlierPlans
from .options import PlanOptions
from .rehearsal import Ask, Rehearsal

# Share of the search's time that the first process may climb for: the rest is for the attempts, in processes of their
# own. Where these would need all of that to come to their training call, it does not climb at all.
CLIMBING = 0.5
MEASURING = 28.0  # seconds from the graph's forecast to the end of the small trials: with their process' end it is 30


class FirstTrials:
    def __init__(
        self,
        wanted: PlanOptions,
        limit: MemoryLimit,
        asked: largest.Wanted,
        earlier: EarlierPlans,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted, self._limit, self._asked, self._earlier, self._clock = wanted, limit, asked, earlier, clock
        self.climbs: list[int] = []  # rows
        self._noted: list[int] = []  # the same
        self._smaller = ""  # than was wished, and why
        self._began = clock()  # the process
        self.ends: float | None = None  # the search for the largest batch, once that has begun

    def next(self, heard: Rehearsal) -> Ask | None:
        facts = Facts.of(heard.facts or {})
        if self._wanted.device or facts.cut or self._earlier.tried(facts):
            return None
        return self._small(facts, heard) or self._larger(facts, heard)

    def hurried(self, heard: Rehearsal) -> str:
        """What of the small batches was not tried, and why; empty where all of them were."""
        under_way = heard.trying if heard.trying not in self.climbs and not heard.noting else 0
        if under_way and heard.interrupted:
            return f"Ctrl-C ended the trial of batch {under_way}"
        if under_way and heard.late:
            return f"the trial of batch {under_way} was ended when the {MEASURING:.0f} s for small ones were over"
        return self._smaller

    def _small(self, facts: Facts, heard: Rehearsal) -> Ask | None:
        tried, by = heard.trials, heard.came + MEASURING
        wished = 0 if self.climbs else forecast.next_trial(facts, self._asked.limit, tried)
        rows = affordable(tried, by - self._clock(), wished)
        if tried and rows <= tried[-1].rows:
            rows = 0
        if rows < wished:
            instead = f"batch {rows} was tried instead" if rows else "nothing more was tried"
            self._smaller = f"a trial of batch {wished} takes more than the {MEASURING:.0f} s for small ones; {instead}"
        if rows and not tried:
            self._wanted.say(at_first(facts, self._limit))
        return Ask(rows, by=by) if rows else None

    def _larger(self, facts: Facts, heard: Rehearsal) -> Ask | None:
        tried = heard.trials
        if not self._wanted.search or heard.unfenced or not tried:
            return None
        if self.ends is None:
            self.ends = self._clock() + self._wanted.search_for
            lone = self._smaller and facts.static and len(tried) == 1  # as the plan counts it
            self._wanted.say(before_the_search(facts, () if lone else tried, self._limit, self._wanted.search_for))
        by = self.ends - (1 - CLIMBING) * self._wanted.search_for
        coming = largest.ATTEMPTS * (heard.came - self._began)
        if self._clock() >= by or coming > self.ends - by:
            return None
        last = tried[-1].rows
        higher = largest.Search(facts, tried, self._asked.of(facts)).next_climb()
        # The last of all is noted, and another size before it: what goes by the rows is seen by both.
        if facts.pooled and last not in self._noted and not (higher and self._noted):
            self._noted.append(last)
            return Ask(last, noting=True, by=by)
        if higher:
            self.climbs.append(higher)
            return Ask(higher, by=by)
        return None


def at_first(facts: Facts, limit: MemoryLimit) -> str:
    """The forecast before anything was tried."""
    then = f"small batches are tried now, which takes {MEASURING:.0f} s at most"
    if not facts.static:
        return f"the model runs eagerly, so that no graph tells what batch {facts.rows} needs; {then}"
    return f"from the graph alone: {needs(facts, forecast.static(facts, facts.rows), limit)}; {then}"


def before_the_search(facts: Facts, tried: Sequence[Trial], limit: MemoryLimit, seconds: float) -> str:
    """What was measured, and what comes now."""
    point = forecast.forecast(facts, tried, facts.rows)
    how = "measured in small" if tried else "from the graph alone"
    then = f"the largest batch that fits is looked for now, for {seconds:g} s at most (--search-for); Ctrl-C ends that"
    return f"{how}: {needs(facts, point, limit)}; {then}"


def needs(facts: Facts, point: Point, limit: MemoryLimit) -> str:
    between = f"{size(point.low)} to {size(point.high)}"
    code = f", {size(facts.files)} of it program code, which gives way" if facts.files else ""
    return f"batch {facts.rows} needs about {size(point.peak)} ({between}){code}; there are {size(limit.bytes)}"
