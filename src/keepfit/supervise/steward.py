"""The steward of the memory: answers what the agent asks about its batch, and sees that the answer holds.

The agent measures, this chooses (by the pure functions of `plan`), writes down what was chosen and why, and
remembers it for the next run. When use climbs all the same, it wants a smaller micro-batch between two
steps; when that does not help, a planned restart.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ..blackbox import choices
from ..blackbox.journal import JournalWriter
from ..blackbox.pulse import Pulse
from ..facts import Beat, Danger, Sample, Splitting, as_json
from ..plan import forecast, micro_batch
from ..plan.micro_batch import Estimate, Line, Room, Trial
from ..quick import dataclass
from .telling import Telling

ROOMY = 0.5  # of the limit in use: below it a batch whose need is not known may well fit, and nothing is said
ENOUGH = 60  # looks at a training, and steps of it, after which its peak has been seen
SETTLE = 3  # steps that a smaller micro-batch is given to show in the use
LEANER = "with a single malloc arena and no look at the whole batch"
GROWTH = 0.01  # of the limit: growth below this is level


@dataclass(frozen=True)
class Lessons:
    """What earlier attempts of the run taught."""

    at_most: Mapping[str, int] = field(default_factory=dict)  # rows, by step
    lean: bool = False  # one died for want of memory


@dataclass
class Case:
    """One step function of one model: what was asked, tried and answered."""

    facts: Splitting
    estimate: Estimate | None
    saving: int = 0  # bytes that a state needs beside what a step has used
    trials: list[Trial] = field(default_factory=list)
    line: Line | None = None
    refused: bool = False
    unsaid: dict[str, Any] | None = None  # why it was, as long as it does not matter
    trying: int = 0  # rows of the trial that is being measured

    @property
    def in_use(self) -> int:
        """Rows computed at once now: the decided ones, or those of a trial that has not come back."""
        return self.trying or self.facts.rows


class Steward:
    def __init__(
        self,
        limit: int,
        source: str,
        pulse: Pulse,
        journal: JournalWriter,
        runs: Path,
        telling: Telling,
        lessons: Lessons,
    ) -> None:
        self._limit = limit
        self._source = source
        self._pulse = pulse
        self._journal = journal
        self._runs = runs
        self._telling = telling
        self._at_most = dict(lessons.at_most)
        self._lean = lessons.lean
        self._cases: dict[str, Case] = {}
        self._asker: object = None  # the process that asks
        self._waiting = False  # a smaller micro-batch was wanted, and is not in use yet
        self._wished: tuple[int, int] | None = None  # (steps, use) when it came into use
        self._before_wish = 0  # rows, before the first one
        self._least = GROWTH * limit  # bytes: less is no growth, and no relief
        self._steps = 0
        self._use = 0
        self._most = 0  # bytes, while it trained
        self._looks = 0
        self._others = 0
        pulse.order(limit)

    # --- questions ----------------------------------------------------------------------------------

    def attend(self, sample: Sample, beat: Beat | None, may_restart: bool) -> Danger | None:
        """Answer what was asked since the last look; a Danger where only a restart will help."""
        self._use = sample.use
        if (letter := self._pulse.question()) is not None:
            try:
                self._pulse.answer(**self._answer(letter))
            except Exception:
                self._pulse.answer()  # an answer that says nothing: the training goes on as it would alone
                raise
        return self._watch(sample, beat, may_restart)

    def _answer(self, letter: Mapping[str, Any]) -> dict[str, Any]:
        asked = str(letter.get("ask"))
        if letter.get("pid") != self._asker:  # another process of the run: nothing that was found out is about it
            self._asker = letter.get("pid")
            self._cases.clear()
            self._wished, self._waiting = None, False
            self._pulse.order(self._limit)
        if asked == "batch":
            return self._batch(letter)
        case = self._cases.get(str(letter.get("step")))
        if asked == "legacy":
            self._telling.report({**letter, "kind": "legacy"})
        if case is None:
            return {}
        if asked == "tried":
            return self._tried(case, letter)
        if asked == "refused":
            return self._refused(case, letter)
        if asked == "splitting":
            return self._splitting(case, letter)
        if asked == "verified":
            return self._verified(case, letter)
        if asked == "heeded":
            return self._heeded()
        if asked == "exhausted":
            return self._exhausted(case, letter)
        return {}

    def _room(self, case: Case) -> Room:
        return Room(self._limit, max(0, self._others), case.saving)

    def _batch(self, letter: Mapping[str, Any]) -> dict[str, Any]:
        estimate = _estimate(letter)
        facts = Splitting(
            step=str(letter["step"]),
            batch=int(letter["rows"]),
            rows=int(letter["rows"]),
            limit=self._limit,
            in_use=int(letter.get("in_use") or 0),
            key=str(letter.get("key") or ""),
            model=letter.get("model") or {},
        )
        case = self._cases[facts.step] = Case(facts, estimate, int(letter.get("saving") or 0))
        self._others = max(0, self._use - facts.in_use) if self._use else 0
        room, rows = self._room(case), facts.batch
        capped = facts.step in self._at_most
        if rows < 2 or letter.get("device") == "gpu":  # a device's memory is not the host's
            return self._whole(case, "comfortable")
        if estimate is not None and not capped and micro_batch.is_comfortable(room, facts.in_use, estimate):
            return self._whole(case, "comfortable")
        resumed = letter.get("resumed")
        if isinstance(resumed, int) and not capped:  # as before it was cut off, so that every bit comes out the same
            if not 0 < resumed < rows:
                return self._whole(case, "resumed")
            case.facts = replace(facts, rows=resumed, how="resumed")
            self._write(case.facts)
            return {"do": "split", "rows": resumed}
        known = choices.recall(self._runs, facts.key) if not capped else None
        if known is not None:
            case.line = Line(facts.in_use + float(known["above"]), float(known["slope"]))
            return self._chosen(case, "remembered")
        return self._try(case, self._capped(case, micro_batch.first_trial(room, facts.in_use, rows, estimate)))

    def _try(self, case: Case, rows: int) -> dict[str, Any]:
        case.trying = rows
        self._write(replace(case.facts, rows=rows, how="trying", trial=True))  # it may not live to tell
        return {"do": "try", "rows": rows}

    def _tried(self, case: Case, letter: Mapping[str, Any]) -> dict[str, Any]:
        trial = Trial(int(letter["rows"]), int(letter["peak"]), float(letter.get("seconds") or 0.0))
        case.trials.append(trial)
        case.trying = 0
        if case.estimate is None:
            case.estimate = _estimate(letter)
        self._write(replace(case.facts, rows=trial.rows, base=trial.peak, how="measured", trial=True))
        rows = case.facts.batch
        if len(case.trials) == 1:
            second = self._capped(
                case, micro_batch.second_trial(self._room(case), case.facts.in_use, trial, rows, case.estimate)
            )
            if second > trial.rows and second < rows:
                return self._try(case, second)
        if len({t.rows for t in case.trials}) > 1:
            case.line = micro_batch.line(case.trials, rows, case.estimate)
        else:  # two rows, or a cap of one: there is nothing to draw a line through
            slope = case.estimate.per_row(rows) if case.estimate else float(trial.peak)
            case.line = Line(trial.peak - slope * trial.rows, slope)
        return self._chosen(case, "measured")

    def _chosen(self, case: Case, how: str) -> dict[str, Any]:
        assert case.line is not None
        batch = case.facts.batch
        most = self._at_most.get(case.facts.step, batch)
        if case.estimate is None and case.trials:  # a line alone is not trusted far beyond what was measured
            most = min(most, micro_batch.FAR * case.trials[-1].rows)
        rows = micro_batch.choose(self._room(case), batch, case.line, most)
        needs = max(case.line.peak(batch), case.facts.in_use + case.estimate.whole) if case.estimate else 0
        case.facts = replace(case.facts, rows=rows, how=how, base=case.line.base, slope=case.line.slope, needs=needs)
        if rows >= batch:
            return self._whole(case, how)
        self._write(case.facts)
        return {"do": "split", "rows": rows}

    def _whole(self, case: Case, how: str) -> dict[str, Any]:
        case.facts = replace(case.facts, rows=case.facts.batch, how=how)
        if how == "comfortable" and case.estimate is not None:
            one, whole = (case.facts.in_use + size for size in (case.estimate.one, case.estimate.whole))
            case.facts = replace(case.facts, base=one, needs=whole)
        self._write(case.facts)
        return {"do": "whole"}

    def _capped(self, case: Case, rows: int) -> int:
        return max(1, min(rows, self._at_most.get(case.facts.step, rows)))

    def _refused(self, case: Case, letter: Mapping[str, Any]) -> dict[str, Any]:
        case.refused = True
        case.facts = replace(case.facts, rows=case.facts.batch, how="refused")
        self._write(case.facts)
        case.unsaid = dict(letter)
        if case.estimate is not None or self._use > ROOMY * self._limit:
            self._say_refused(case)
        return {}

    def _say_refused(self, case: Case) -> None:
        if case.unsaid is not None:
            self._telling.report(case.unsaid)
            case.unsaid = None

    def _splitting(self, case: Case, letter: Mapping[str, Any]) -> dict[str, Any]:
        rows = int(letter["rows"])
        if rows != case.facts.rows:
            case.facts = replace(case.facts, rows=rows, how="wished")
            self._write(case.facts)
        if rows >= case.facts.batch:
            return {}
        self._heeded()
        # Only of a model that was looked at, and without a note against it, is it said that it is exact.
        known = {"exact": letter.get("notes") == [], "parts": case.facts.parts, "source": self._source}
        self._telling.report({"kind": "splitting", **known, **as_json(case.facts)})
        for note in letter.get("notes") or ():
            self._telling.report(note)
        return {}

    def _verified(self, case: Case, letter: Mapping[str, Any]) -> dict[str, Any]:
        seen = Trial(int(letter["rows"]), int(letter["peak"]), float(letter.get("seconds") or 0.0))
        faster = bool(case.trials) and micro_batch.faster(case.trials[-1], seen)
        chosen = case.trials[-1].rows if faster else seen.rows
        if case.line is not None:
            case.line = micro_batch.corrected(case.line, seen)
            chosen = min(chosen, micro_batch.choose(self._room(case), case.facts.batch, case.line, seen.rows))
            if case.facts.how == "measured":
                above = case.line.base - case.facts.in_use
                choices.remember(self._runs, case.facts.key, time.time(), {"above": above, "slope": case.line.slope})
        if self._waiting or self._wished is not None:
            chosen = min(chosen, case.facts.rows)
        self._journal.write("verified", step=case.facts.step, chosen=chosen, **as_json(seen))
        if chosen != case.facts.rows:
            case.facts = replace(case.facts, rows=chosen, base=case.line.base if case.line else 0.0)
            self._write(case.facts)
            if chosen < seen.rows:
                told = {"tried": seen.rows, "peak": seen.peak, "faster": faster, "parts": case.facts.parts}
                self._telling.report({"kind": "corrected-split", **told, **as_json(case.facts)})
        return {"rows": chosen}

    def _exhausted(self, case: Case, letter: Mapping[str, Any]) -> dict[str, Any]:
        """A device ran out of memory in the middle of a step: the same batch again, in smaller parts."""
        used = int(letter["rows"])
        if used <= 1:
            return {}
        case.facts = replace(case.facts, rows=max(1, used // 2), how="exhausted")
        self._write(case.facts)
        return {"rows": case.facts.rows}

    # --- watching -----------------------------------------------------------------------------------

    def _watch(self, sample: Sample, beat: Beat | None, may_restart: bool) -> Danger | None:
        case = self._cases.get("train")
        if beat is None or beat.phase != "train" or not beat.steps or (case is not None and case.trying):
            return None
        self._steps = beat.steps
        self._most, self._looks = max(self._most, sample.use - self._others), self._looks + 1
        high = sample.use > micro_batch.CLIMBING * self._limit
        if self._wished is None:
            if high and not self._waiting:
                self._climbs(case, sample.use)
            return None
        steps, use = self._wished
        if beat.steps < steps + SETTLE:
            return None
        if not high:
            self._wished = None  # it came down: the next climb is a new one
            return None
        self._wished = (beat.steps, sample.use)
        climbs = sample.use > use + self._least
        if not climbs or not may_restart:
            return None
        return Danger(sample.time, self._limit, sample.use, self._source, "planned")

    def _heeded(self) -> dict[str, Any]:
        """The smaller micro-batch is in use: from now on use has to level off."""
        if self._waiting:
            self._waiting, self._wished = False, (self._steps, self._use)
        return {}

    def _climbs(self, case: Case | None, use: int) -> None:
        """Half the micro-batch, where that gives anything back; else it is seen whether use levels off by itself."""
        self._pulse.want_state()  # the line is near
        if case is not None:
            self._say_refused(case)
        rows = case.facts.rows if case is not None and not case.refused else 1
        if case is None or micro_batch.given_back(rows, case.facts.batch, case.line, case.estimate) < self._least:
            self._wished = (self._steps, use)
        else:
            self._wish(case, use)

    def _wish(self, case: Case, use: int) -> None:
        rows = max(1, case.facts.rows // 2)
        self._waiting = True
        self._before_wish = self._before_wish or case.facts.rows
        self._pulse.order(self._limit, rows)
        self._journal.write("wish", step="train", rows=rows, use=use)
        self._telling.report({"kind": "climbing", "rows": rows, "use": use, "limit": self._limit})
        case.facts = replace(case.facts, rows=rows, how="wished")
        self._write(case.facts)

    def changes(self, attempt: int) -> tuple[dict[str, int], str] | None:
        """After a death for want of memory: (rows at most, by step; in words) for the next attempt, or None."""
        next_rows = self.next_rows(self._use, attempt)
        case = self._last()
        if case is None or case.refused:
            return None
        if next_rows is None:
            return None if self._lean else (self._at_most, LEANER)
        used = case.in_use
        return {**self._at_most, case.facts.step: next_rows}, f"micro-batch {used} → {next_rows}"

    def as_before(self) -> tuple[dict[str, int], str]:
        """Its memory climbed whatever the micro-batch, and is free again: that goes back to what it was."""
        case, at_most = self._cases.get("train"), dict(self._at_most)
        if case is not None and 0 < self._before_wish < case.facts.batch:
            at_most["train"] = self._before_wish
        return at_most, ""

    def forget(self) -> None:
        """What was remembered of this model led to a death."""
        if (case := self._last()) is not None:
            choices.forget(self._runs, case.facts.key)

    def next_rows(self, reached: int, attempt: int = 1) -> int | None:
        case = self._last()
        if case is None or case.refused:
            return None
        return micro_batch.smaller(self._room(case), case.in_use, attempt, case.line, reached)

    def _last(self) -> Case | None:
        return list(self._cases.values())[-1] if self._cases else None

    def look_back(self) -> None:
        """At the end: was the forecast right? A few steps say nothing, and a shrunk micro-batch is another training."""
        case = self._cases.get("train")
        expected = case.facts.forecast if case is not None and not case.trying else 0
        if expected and min(self._steps, self._looks) >= ENOUGH and self._before_wish == 0:
            low, high = forecast.static_interval(expected)
            self._telling.report(
                {"kind": "forecast", "forecast": expected, "peak": self._most, "low": low, "high": high}
            )

    # --- telling ------------------------------------------------------------------------------------

    def _write(self, facts: Splitting) -> None:
        self._journal.write("splitting", **as_json(facts))


def _estimate(letter: Mapping[str, Any]) -> Estimate | None:
    told = letter.get("estimate")
    return Estimate(int(told["whole"]), int(told["one"])) if isinstance(told, Mapping) else None
