"""The largest batch that fits: which sizes are worth trying, and what a trial of them says.

Every trial is a real one, inside the limit. The process that has tried the forecast's small batches climbs on from
there, each time by less than what the line promises; what it learns brings two attempts, each in a fresh process as
the training itself will be, close to the limit without going beyond it. Where one came to the limit all the same, the
next begins well below that and goes on in short steps, as the last one does where malloc keeps little: what it has kept
of a smaller size makes the larger one need more than it would alone, not less. Where tensors lie in a pool (`pool.py`)
it is not a line that the attempts go by, but what would lie there; that jumps, by chance too. There the first goes on,
until it comes to the limit where it has to, and the second sees alone what was found so, and goes on as well where
that needed no more alone: what was not alone counts only by how much more one of its sizes needs so. Where the first
had begun too high, the second is the only one that runs, and goes on with room to spare. A pool grows a little with the
steps, too: of a training with more of them than a trial some of the limit is left to the later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from ..quick import dataclass
from .forecast import FIRST, FURTHER, Facts, line
from .micro_batch import Line, Trial

CLIMBED = 0.9  # of the limit: as far as the climb goes
NOTED = 0.5  # of what is left of it: the same where there is a pool
STRIDE, TRIED = 1.1, 4  # each size so many times the one before it, and so many in one process, small ones included
PATIENCE = 4.0  # seconds that a step of the climb may take: the limit may be far, and two trials are to come
ATTEMPTS = 2
STRETCHED, SHORT = 6, 1.04  # sizes that an attempt tries, one behind the other, and how many times the last at most
DROWNED = 256 << 20  # bytes: two peaks that differ by less do not tell what a row takes
# A further row may take so many times what the rows so far have taken: behind other sizes in the same process, and
# from there to a fresh one, or where the pool tells of jumps.
STEEPER = (1.25, 1.1)
# Where a row takes more than so many times what its graph keeps alive, further ones were seen to take still more (LSTM,
# GRU, U-Net); not where malloc keeps little.
EXPLAINED = 1.3
# The same batch may peak higher the next time, or a little higher in a later step: of the limit so much is left free by
# the first attempt and the second, or half of what the steps of the one before differ by. Where malloc keeps little,
# the second may come closer.
FREE, CLOSER = ((64 << 20, 0.1), (28 << 20, 0.02)), (24 << 20, 0.012)  # (bytes, share)
# Where the pool that the tensors lie in can be played with other rows, the first may come closer, too; one behind
# a size that came to the limit begins at this share of it, and none is so many times what was noted.
PLAYED, BELOW, FAR = (48 << 20, 0.04), 0.8, 8
# Which operation comes first is chance: what lies in the pool was seen to jump with so many times fewer rows than it
# does where it is played (two towers, side by side). The first attempt stays below such a jump.
SOONER = (1.0, 1.02, 1.04)
# Of the limit: what the steps behind a trial's may bring to a pool, for each may come in an order that none before it
# had (from the twelfth to the 32nd 0.1 to 1.1 % in eight models of ten, 2.2 % in convolutions, 3.7 % in a U-Net). 1.5 %
# were too little for a MobileNetV2 that had come to 1,506 of 1,536 MiB; 3 % found as many U-Net's and MobileNetV2's
# rows as 2 %, for it is another process' order that needs more, and of others fewer.
LASTING = 0.02
LAST = (8 << 20, 0.005)  # what sizes in a pool leave free, each behind one that ran
# Of what the trials' peaks differ by: where more of it is not in the pool, what was noted does not tell of more rows.
UNEXPLAINED = 0.35
GLANCES = 4  # at further sizes, where one would jump: one row more or less may do
FALLS, LOOKS = 0.2, 15  # share of the rows by which it is looked beyond what fits, and how often
AHEAD = 5  # batches of arrays that are on their way to a step, beside its own: Keras has them made before
WORTH, LITTLE = 1.02, 1.01  # times what is known to fit: less is no gain, in a fresh process and behind another size


# Bytes that lie in TensorFlow's pool in steps of so many rows, behind others in the same process.
InPool = Callable[..., int]


@dataclass(frozen=True)
class Wanted:
    """What the person asked for."""

    limit: int  # bytes, less what is to be left free
    multiple: int = 1
    most: int | None = None
    lasting: int = 0  # bytes of the limit that are for later steps than those of a trial

    def of(self, facts: Facts) -> Wanted:
        """No more rows than there are in the data, and as many as a training of so many steps may have."""
        most = min((most for most in (self.most, facts.samples) if most), default=None)
        return replace(self, most=most, lasting=int(LASTING * self.limit) if facts.pooled and facts.grows else 0)

    @property
    def bound(self) -> int:
        """Bytes that a batch may come to in the steps of a trial."""
        return self.limit - self.lasting

    def below(self, rows: int) -> Wanted:
        """The same, of fewer rows than these."""
        most = max(1, rows - 1)
        return replace(self, most=min(most, self.most or most))

    def rounded(self, rows: int) -> int:
        rows = min(rows, self.most) if self.most else rows
        return rows - rows % self.multiple

    def rounded_up(self, rows: float) -> int:
        return -int(-rows // self.multiple) * self.multiple


@dataclass(frozen=True)
class Attempt:
    """A fresh process: the sizes that ran in it, one behind the other, and the one that came to the limit (0: none)."""

    ran: tuple[Trial, ...] = ()
    overshot: int = 0


@dataclass(frozen=True)
class Search:
    """What is known so far, and what is worth trying next."""

    facts: Facts
    trials: Sequence[Trial]  # small ones, one behind the other in the process of the forecast
    wanted: Wanted
    attempts: Sequence[Attempt] = ()
    climbed: Sequence[Trial] = ()  # behind the small ones
    pool: InPool | None = None  # where it is known what lies in TensorFlow's

    def next_climb(self) -> int:
        """The rows that the process of the forecast tries next, behind its small ones; 0: it is near enough.

        Where the search has an end of its own (--max) there is nothing to climb for beyond it.
        """
        tried, wanted = self._tried, self.wanted
        if not tried or len(tried) >= TRIED:
            return 0
        last = tried[-1]
        at_most = CLIMBED * wanted.bound
        if self.facts.pooled:  # steps are to be noted then, which takes memory itself
            at_most = tried[0].peak + NOTED * (wanted.bound - tried[0].peak)
        rows = _reaching(self.facts, last, _slope(self.facts, tried), STEEPER[0], int(at_most))
        rows = wanted.rounded(min(rows, int(PATIENCE * last.rows / max(last.seconds, 1e-9))))
        return rows if rows >= STRIDE * last.rows else 0

    def next_size(self) -> int:
        """The rows that a fresh process begins with; 0: nothing more is to be gained, or the attempts are used up.

        Where a size was too large, it is half-way between that and what was not; in a pool, where that was behind one
        that ran, it is the size itself.
        """
        ran = counting(self.facts, self.attempts, self.wanted)
        if not (self.trials or self.attempts) or len(self.attempts) >= ATTEMPTS:
            return 0
        best = largest(self.facts, ran, self.wanted)
        too_large = self._too_large
        if self.facts.pooled and (further := largest(self.facts, ran_in(self.attempts), self.wanted)) > best:
            rows = further  # behind others; now alone
        elif self.facts.pooled and too_large and best:
            rows = too_large  # this was behind another, too, and may have needed more than it does alone
        elif too_large:
            below = max((trial.rows for trial in (*self._tried, *ran)), default=0)
            # A single row that came to the limit was tried beside all that a forecast takes: alone it may not.
            half_way = max(1, (below + too_large) // 2)
            rows = max(half_way, int(BELOW * too_large)) if self._explaining is not None and not ran else half_way
        elif self._explaining is not None:
            rows = self._played(self._explaining)
            if ran and self.wanted.rounded(rows) < WORTH * best:
                rows = self._in_spite(ran[0])
        elif ran:
            rows = self._beyond(ran[0])
        else:
            rows = self._first()
        if ran and not best:  # all that was alone needs too much: less than that
            rows = min(rows, self._beyond(ran[0]))
        if not ran and self.wanted.rounded(rows) < 1:  # what was tried in small is most of the room: then it is that
            rows = largest(self.facts, self.trials, self.wanted)
        rows = self.wanted.rounded(rows)
        return rows if rows >= max(1, WORTH * best) else 0

    def next_stretch(self, ran: Sequence[Trial]) -> int:
        """The rows that a fresh process tries behind those that ran in it; 0: it is near enough."""
        if not ran or len(ran) >= self.stretches:
            return 0
        wanted, last = self.wanted, ran[-1]
        if not self.facts.pooled:
            at_most = _left(self.facts, wanted, 1, last.spread)
        elif began_too_high(self.attempts):
            at_most = _below(wanted, PLAYED)  # what comes closer would not count
            wanted = wanted.below(self.attempts[0].overshot)
        elif self._is_last and more_alone(self.attempts, ran[0]) != 0:
            return 0  # those behind it may need more alone as well, and it is not known how much
        else:
            at_most = _below(wanted, LAST)  # nothing is lost where one comes to the limit: another has run
        slope = _further(self.facts, self.trials, (), ran[0])
        explained = self._explaining is not None
        reached = _reaching(self.facts, last, slope, STEEPER[1] if explained else STEEPER[0], at_most)
        short = max(last.rows + wanted.multiple, int(SHORT * last.rows))
        # In a pool, what is left behind half-way is for what was not foreseen.
        most = min(reached, max(short, (last.rows + reached) // 2) if self.facts.pooled else short)
        least = (LITTLE if self.facts.pooled else WORTH) * last.rows
        if explained:  # by the rows so far there may be no more of them where they are few; the pool knows better
            most = max(most, wanted.rounded_up(least))
        sizes = [wanted.rounded(int(most - max(0, most - least) * look / GLANCES)) for look in range(GLANCES + 1)]
        inside = (size for size in sizes if size >= least and not self._jumps(last, size, at_most))
        # Where by the pool there is none, but by the rows so far there is: a jump that was foreseen may not come.
        in_spite = wanted.rounded(min(reached, short))
        return next(inside, in_spite if in_spite >= least else 0)

    def _jumps(self, last: Trial, rows: int, at_most: int) -> bool:
        """Whether what lies in the pool, and batches on their way there, would grow by more than there is left."""
        if (pool := self._explaining) is None:
            return False
        grown = pool(rows) - pool(last.rows) + AHEAD * self.facts.row * (rows - last.rows)
        return last.peak + grown + self.facts.later > at_most

    @property
    def stretches(self) -> int:
        """How many sizes the next attempt may try.

        Only behind one that came to the limit, or in the last where malloc keeps little of the sizes before; elsewhere
        it gained nothing (16 rows of `bench largest`), and came to the limit more often. In a pool the first goes on,
        for the last to see alone how far it came: there the sizes before may have left a place to what is larger, that
        it would not have found (an autoencoder: 89 rows came to 918 MiB behind 76, and 88 to 1,014 alone).
        """
        overshot = any(attempt.overshot for attempt in self.attempts)
        further = self.facts.pooled or overshot or (self._is_last and self.facts.keeps_little)
        return STRETCHED if further else 1

    @property
    def _is_last(self) -> bool:
        return len(self.attempts) == ATTEMPTS - 1

    @property
    def _too_large(self) -> int:
        """The smallest size that came to the limit, or to what is left for later steps behind another; 0: none did."""
        overshot = [attempt.overshot for attempt in self.attempts if attempt.overshot]
        room = self.wanted.bound - self.facts.later
        behind = [trial.rows for attempt in self.attempts for trial in attempt.ran[1:] if trial.peak > room]
        return min([*overshot, *behind], default=0)

    @property
    def _tried(self) -> list[Trial]:
        return [*self.trials, *self.climbed]

    @property
    def _explaining(self) -> InPool | None:
        """The pool, where it explains most of what the trials' peaks differ by. With few rows a GRU's tensors are too
        small to lie there, and steps of more rows may not have been noted."""
        if self.pool is None or not self._tried:
            return None
        peaks, beside = [trial.peak for trial in self._tried], self._beside(self.pool)
        return self.pool if max(beside) - min(beside) <= UNEXPLAINED * (max(peaks) - min(peaks)) else None

    def _beside(self, pool: InPool) -> list[int]:
        """Bytes of each trial that did not lie in the pool."""
        rows = [trial.rows for trial in self._tried]
        return [trial.peak - pool(*rows[: place + 1]) for place, trial in enumerate(self._tried)]

    def _first(self) -> int:
        facts, wanted, tried = self.facts, self.wanted, self._tried
        at_most = _left(facts, wanted, 0, tried[-1].spread // 2)
        return _reaching(facts, _calm(tried[-1]), _slope(facts, tried), STEEPER[1], at_most)

    def _beyond(self, alone: Trial) -> int:
        """By one that was alone in its process, as this will be: sizes behind others lie too close to tell of a row."""
        slope = _further(self.facts, self.trials, self.climbed, alone)
        return _reaching(self.facts, alone, slope, 1.0, _left(self.facts, self.wanted, 1, alone.spread // 2))

    def _in_spite(self, alone: Trial) -> int:
        """Of what the pool says: by the line, or a little more rows than ran. Nothing is lost where that fails, for no
        attempt is left behind it."""
        little = self.wanted.rounded_up(WORTH * alone.rows)
        slope = _further(self.facts, self.trials, self.climbed, alone)
        inside = alone.peak + slope * (little - alone.rows) + self.facts.later <= self.wanted.bound
        return max(self._beyond(alone), little if inside else 0)

    def _played(self, pool: InPool) -> int:
        """By what would lie in the pool, beside all else: as much as there was in the trials, on the average."""
        tried, alone = self._tried, [attempt.ran[0] for attempt in self.attempts]
        sooner = (1.0,) if self.attempts else SOONER

        def need(rows: int) -> float:  # batches on their way are in no trial of the small ones
            return max(pool(int(share * rows)) for share in sooner) + AHEAD * self.facts.row * rows

        beside = fmean([fmean(self._beside(pool)), *(trial.peak - need(trial.rows) for trial in alone)])
        room = _below(self.wanted, CLOSER if self.attempts else PLAYED) - self.facts.later - beside
        fits, fails = 0, max(trial.rows for trial in (*tried, *alone))
        while fails <= FAR * tried[-1].rows and need(fails) <= room:
            fits, fails = fails, 2 * fails
        while fails - fits > 1:
            middle = (fits + fails) // 2
            fits, fails = (middle, fails) if need(middle) <= room else (fits, middle)
        if not largest(self.facts, alone, self.wanted):
            return fits
        # More rows may need less, where what was too large for one place finds room in the next.
        beyond = (int(fits * (1 + FALLS * step / LOOKS)) for step in range(LOOKS, 0, -1))
        return next((rows for rows in beyond if need(rows) <= room), fits)


def _left(facts: Facts, wanted: Wanted, attempt: int, spread: int) -> int:
    """Bytes of the limit that an attempt may come to."""
    return _below(wanted, CLOSER if attempt and facts.keeps_little else FREE[attempt], spread)


def _below(wanted: Wanted, free: tuple[int, float], spread: int = 0) -> int:
    least, share = free
    return wanted.bound - max(least, int(share * wanted.bound), spread)


def ran_in(attempts: Sequence[Attempt]) -> list[Trial]:
    return [trial for attempt in attempts for trial in attempt.ran]


def counting(facts: Facts, attempts: Sequence[Attempt], wanted: Wanted) -> list[Trial]:
    """Those that say whether a size fits. Where there is a pool, the ones that were alone in their process; and those
    behind them if it is known how much more one of these, or of the sizes that came to the limit there, needs alone.

    Behind the only one that ran at all, for the first attempt began too high, nothing of that can be known: these need
    as much more as a first attempt leaves free (of 41 sizes that were tried both ways, 35 needed at most 19 MiB more).
    """
    if not facts.pooled:
        return ran_in(attempts)
    alone = [attempt.ran[0] for attempt in attempts if attempt.ran]
    behind = [trial for attempt in attempts for trial in attempt.ran[1:]]
    more = [more for trial in alone if (more := more_alone(attempts, trial)) is not None]
    if began_too_high(attempts):
        more = [wanted.bound - _below(wanted, PLAYED)]
    return [*alone, *(replace(trial, peak=trial.peak + max(more)) for trial in behind if more)]


def found(facts: Facts, attempts: Sequence[Attempt], wanted: Wanted) -> int:
    """The largest batch by those that say whether a size fits; 0: none does."""
    return largest(facts, counting(facts, attempts, wanted), wanted)


def began_too_high(attempts: Sequence[Attempt]) -> bool:
    """Whether the first came to the limit with its first size."""
    return bool(attempts) and attempts[0].overshot > 0 and not attempts[0].ran


def more_alone(attempts: Sequence[Attempt], alone: Trial) -> int | None:
    """Bytes that it needed more than behind other sizes; None: it was not tried there.

    Where it came to the limit behind them, it needed no more alone.
    """
    behind = [trial for attempt in attempts for trial in attempt.ran[1:] if trial.rows == alone.rows]
    ended = any(attempt.ran and attempt.overshot == alone.rows for attempt in attempts)
    return max(0, *(alone.peak - trial.peak for trial in behind)) if behind else 0 if ended else None


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
    if last.rows <= max((trial.rows for trial in trials), default=last.rows):
        known = line(facts, trials or [last])
        return known.slope if known is not None else 0.0
    took = (last.peak - facts.in_use - facts.model["trainable"] - FIRST) / last.rows
    slopes = [took, _between(min(trials, key=lambda trial: trial.rows), last)]
    if climbed:
        slopes.append(_between(trials[-1], _calm(climbed[-1])))
    counted = (facts.alive(2 * last.rows) - facts.alive(last.rows)) / last.rows
    if facts.keeps_little:  # nothing that was freed hides what further rows take, as the graph has it
        return max(*slopes, FURTHER * counted)
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


def largest(facts: Facts, tried: Sequence[Trial], wanted: Wanted) -> int:
    """The largest that was tried and fits, with what the pipeline will hold later; 0 where none does."""
    return max((trial.rows for trial in tried if trial.peak + facts.later <= wanted.bound), default=0)
