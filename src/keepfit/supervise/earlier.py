"""Earlier plans: what was tried of the very same training, and what the same one needed with other versions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..blackbox import choices
from ..conditions.catalogue import findings
from ..facts import Finding
from ..plan import forecast, largest
from ..plan.micro_batch import Trial
from ..plan.whole import Plan

ALIKE = 1.1  # times: what a machine has left differs from one hour to the next, and the trials are as good


class EarlierPlans:
    """In the runs directory; without one nothing is remembered."""

    def __init__(self, runs: Path | None, asked: largest.Wanted, search: bool, stated: bool) -> None:
        """The limit that was asked for is `stated`, or what the machine happens to have left now."""
        self._runs, self._asked, self._search, self._stated = runs, asked, search, stated

    def tried(self, facts: forecast.Facts) -> tuple[list[Trial], list[largest.Attempt]] | None:
        """The trials, and the attempts at the largest batch, where the script held as much before its training call
        then as it does now."""
        known = choices.recall(self._runs, self._name(facts)) if self._runs and facts.static else None
        if not known or abs(int(known["in_use"]) - facts.in_use) >= forecast.CHANCE:
            return None
        if not 1 / ALIKE < self._asked.limit / int(known.get("limit") or self._asked.limit) < ALIKE:
            return None
        attempts = [largest.Attempt(tuple(_trials(ran)), overshot) for ran, overshot in known["attempts"]]
        if attempts and not largest.found(facts, attempts, self._asked.of(facts)):  # there is less than there was
            return None
        return _trials(known["trials"]), attempts

    def _name(self, facts: forecast.Facts) -> str:
        """What the graph keeps alive is in it: strides, padding or a policy change that, and no weight's shape."""
        asked = self._asked.of(facts)
        limit = asked.limit if self._stated else "what is left"
        words = (facts.told.get("key"), limit, asked.multiple, asked.most, self._search, facts.static,
                 sorted(facts.malloc.items()), facts.pooled)  # fmt: skip
        return f"searched {words}"

    def keep(self, made: Plan) -> list[Finding]:
        """What is to be said of the difference to an earlier one."""
        told, point = made.facts.told, made.point
        if not told.get("key") or self._runs is None:
            return []
        name = f"forecast {told['likeness']} {point.how}"
        before = choices.recall(self._runs, name) or {}
        report = {"kind": "plan", "peak": point.peak, "low": point.low, "high": point.high,
                  "versions": list(told["versions"]), "before": before.get("peak"),
                  "versions_before": before.get("versions")}  # fmt: skip
        now = time.time()
        with contextlib.suppress(OSError):
            self._runs.mkdir(parents=True, exist_ok=True, mode=0o700)
        choices.remember(self._runs, name, now, {"peak": point.peak, "versions": told["versions"]})
        # Of attempts that only came to the limit nothing was learnt, and what was cut short tells less than it might:
        # the next plan may have more luck.
        through = not (made.reached or made.unverified or made.hurried or made.ended)
        learnt = through and all(attempt.ran for attempt in made.attempts)
        if learnt and not made.remembered:
            attempts = [(_as_kept(attempt.ran), attempt.overshot) for attempt in made.attempts]
            known = {"limit": made.wanted.limit, "in_use": made.facts.in_use,
                     "trials": _as_kept(made.trials), "attempts": attempts}  # fmt: skip
            choices.remember(self._runs, self._name(made.facts), now, known)
        return findings(report, "preflight")


def _trials(kept: Iterable[Sequence[Any]]) -> list[Trial]:
    return [Trial(*one) for one in kept]


def _as_kept(trials: Iterable[Trial]) -> list[list[float]]:
    return [[trial.rows, trial.peak, trial.seconds] for trial in trials]
