"""The largest batch: sizes are verified while there is time for it, each attempt in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..conditions.reading import size
from ..plan import forecast, largest
from ..plan.pace import affordable
from ..plan.whole import Plan
from .interrupt import Interrupt
from .options import PlanOptions
from .rehearsal import Ask, Rehearsal, rehearse

PATIENCE = 10.0  # times what it took to come there, and what a step of that size should take: it may be thrashing
BY_HAND = "Ctrl-C ended the search"


def search(made: Plan, wanted: PlanOptions, environment: Mapping[str, str], ends: float, stop: Interrupt) -> None:
    """Verify the largest batch, until it is found, the time is over or Ctrl-C comes: what is known by then is kept."""
    while not (made.ended or made.unverified) and (rows := made.search.next_size()):
        left = ends - time.monotonic()
        if stop.came:
            made.ended = BY_HAND
        elif rows := in_time(made, rows, left):
            wanted.say(
                f"the script runs again, up to its training call, to try {rows} rows in a process of its own "
                f"(attempt {len(made.attempts) + 1} of {largest.ATTEMPTS} at most, {left:.0f} s are left)"
            )
            _attempt(made, wanted, environment, rows, ends, stop)
        else:
            made.ended = over(wanted)


def over(wanted: PlanOptions) -> str:
    return f"the search had {wanted.search_for:g} s (--search-for)"


def in_time(made: Plan, rows: int, left: float) -> int:
    """The rows that are worth an attempt in the seconds that are left, so many at most; 0: none are."""
    ran = [*made.trials, *made.climbed, *made.verified]
    most = affordable(ran, left - made.came_after, rows)
    if most == rows:
        return rows
    most = made.wanted.rounded(most)
    return most if most > max((trial.rows for trial in ran), default=0) else 0


def _attempt(
    made: Plan, wanted: PlanOptions, environment: Mapping[str, str], rows: int, ends: float, stop: Interrupt
) -> None:
    """A fresh process: so many rows, and what of further ones is worth trying behind them."""
    slowest = max((trial.seconds / trial.rows for trial in (*made.trials, *made.climbed)), default=0.0)
    patience = PATIENCE * (made.came_after + made.search.stretches * slowest * rows)

    def sizes(heard: Rehearsal) -> Ask | None:
        if not heard.tried:
            return None if (heard.facts or {}).get("cut") else Ask(rows, by=ends)
        more = made.search.next_stretch(heard.trials)
        return Ask(more, by=ends) if more else None

    seconds = min(wanted.timeout, ends - time.monotonic())
    heard = rehearse(wanted.argv, environment, made.wanted.limit, seconds, sizes, rows, patience, stop=stop)
    attempt = largest.Attempt(tuple(heard.trials), _overshot(heard, rows))
    is_over = heard.late and time.monotonic() >= ends
    if heard.interrupted:
        made.ended = BY_HAND
    elif is_over:
        made.ended = over(wanted)
    if is_another(heard, made.facts) or not (attempt.ran or attempt.overshot or made.ended):
        made.unverified = not_again(heard, made.facts)
    elif attempt.ran or attempt.overshot:
        made.attempts.append(attempt)
        wanted.say(came_to(attempt, made.wanted))


def _overshot(heard: Rehearsal, rows: int) -> int:
    """The size that came to the limit; 0: none did."""
    return (heard.trying or rows) if heard.died_trying or heard.thrashing else 0


def came_to(attempt: largest.Attempt, wanted: largest.Wanted) -> str:
    """What an attempt has shown."""
    said = [f"{trial.rows} rows came to {size(trial.peak)} of {size(wanted.limit)}" for trial in attempt.ran]
    if attempt.overshot:
        said.append(f"{attempt.overshot} rows came to the limit, and were ended there")
    return "; ".join(said)


def is_another(heard: Rehearsal, facts: forecast.Facts) -> bool:
    """What was trained in a process of its own: a script that reads a pipe finds nothing there the second time."""
    weights = (heard.facts or {}).get("weights")
    return weights is not None and weights != facts.model["weights"]


def not_again(heard: Rehearsal, facts: forecast.Facts) -> str:
    """Why a process of its own, in which a size was to be verified, says nothing of one."""
    if is_another(heard, facts):
        why = "trained another model"
    elif heard.failed:
        why = f"failed at its training call ({' '.join(heard.failed.split())})"
    elif heard.late:
        why = "had tried no step" if heard.facts is not None else "came to no training call"
        why += " when its time was over (--timeout)"
    elif heard.status is not None:
        why = f"ended with {heard.ending}"
    elif heard.reached:
        why = "came to the limit before its training call"
    else:
        why = f"could not try it: {(heard.facts or {}).get('cut') or 'nothing was heard of it'}"
    return f"the script, when it ran again, {why}"
