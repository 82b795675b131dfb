"""A plan: the command is run up to its first training call, in a process of its own, and forecast from there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..blackbox import choices
from ..conditions.catalogue import findings
from ..conditions.reading import size
from ..facts import Finding, MemoryLimit, as_json
from ..machine import cgroup, limits
from ..plan import forecast, largest
from ..plan import options as priced
from ..plan.micro_batch import Line, Room, Trial, choose
from ..plan.pool import Replay, Steps
from .options import RunOptions
from .rehearsal import Ask, Rehearsal, rehearse

SECONDS = 600.0  # that a script may take to come to its training call
PATIENCE = 10.0  # times what it took to come there, and what a step of that size should take: it may be thrashing


class CannotPlan(Exception):
    """Why, in a line; with what was learnt all the same."""


@dataclass(frozen=True)
class PlanOptions:
    argv: tuple[str, ...]
    memory: int | None = None
    reserve: int = 0
    multiple: int = 1
    most: int | None = None
    timeout: float = SECONDS
    search: bool = True  # for the largest batch
    device: MemoryLimit | None = None  # an accelerator that is not here, to plan for instead of this machine
    runs: Path | None = None  # where plans are remembered; None: nowhere


@dataclass
class Plan:
    """All that was found out."""

    limit: MemoryLimit
    facts: forecast.Facts
    trials: list[Trial]
    attempts: list[largest.Attempt] = field(default_factory=list)  # at the largest batch
    climbed: list[Trial] = field(default_factory=list)  # on the way to the limit: no part of the forecast
    noted: list[Steps] = field(default_factory=list)  # what steps took from TensorFlow's pool, in their order
    came_after: float = 0.0  # seconds: its first training call
    reached: bool = False  # already a small one did
    unfenced: str = ""  # why nothing but good will holds the limit
    wanted: largest.Wanted = field(default_factory=lambda: largest.Wanted(0))
    findings: list[Finding] = field(default_factory=list)
    device: MemoryLimit | None = None  # one that is not here
    remembered: bool = False  # nothing was tried: an earlier plan of the very same had been

    @property
    def point(self) -> forecast.Point:
        if self.device is not None:
            return forecast.on_device(self.facts, self.facts.rows)
        point = forecast.forecast(self.facts, self.tried, self.facts.rows)
        return forecast.beyond(point, self.room) if self.reached else point

    @property
    def tried(self) -> list[Trial]:
        """What a forecast is made of: behind other sizes in the same process one needs more."""
        return [*self.trials, *(attempt.ran[0] for attempt in self.attempts if attempt.ran)]

    @property
    def verified(self) -> list[Trial]:
        return largest.ran_in(self.attempts)

    @property
    def overshot(self) -> list[int]:
        """Sizes that came to the limit."""
        return [attempt.overshot for attempt in self.attempts if attempt.overshot]

    @property
    def room(self) -> int:
        """What the process may have, its program code included: that gives way when memory is short."""
        return self.wanted.limit + self.facts.files

    @property
    def fits(self) -> bool | None:
        """None: nothing is known of a step."""
        if self.device is not None:
            return self.point.high <= self.device.bytes
        if not forecast.is_known(self.facts, self.trials) and not self.reached:
            return None
        return self.point.high <= self.room

    @property
    def coverage(self) -> float | None:
        """The share of trainings that stay inside the interval; None: nobody has measured it for such a forecast."""
        seldom = self.device is not None or self.reached or self.facts.told.get("loop") or not self.facts.static
        return None if seldom or self.point.where == "validation" else forecast.COVERAGE[self.point.how]

    @cached_property
    def pool(self) -> largest.InPool | None:
        """What would lie in it with other rows, by the last steps that were noted; None: nothing is known of one."""
        if not self.noted:
            return None
        other = next((steps for steps in self.noted if steps.rows != self.noted[-1].rows), None)
        return Replay(self.noted[-1], other).resident

    @property
    def search(self) -> largest.Search:
        """For the largest batch, as far as it has come."""
        return largest.Search(self.facts, self.trials, self.wanted, self.attempts, self.climbed, self.pool)

    def would_fit(self, option: priced.Option) -> bool:
        """With an option, by the same share of doubt; another machine is chosen so that it does."""
        doubt = self.point.high / max(1, self.point.peak)
        room = self.device.bytes if self.device is not None else self.room
        return option.name == "machine" or option.peak * doubt <= room

    @property
    def largest(self) -> int:
        if self.device is not None:
            return self.wanted.rounded(forecast.largest_on_device(self.facts, self.device.bytes))
        # Where both verifications came to the limit, what was climbed to has been tried inside it, too.
        return largest.largest(self.facts, self.verified or self.climbed, self.wanted)


def plan(wanted: PlanOptions, environment: Mapping[str, str]) -> Plan:
    if environment.get("KEEPFIT_DISABLE") == "1":  # nobody would stop the script at its training call
        raise CannotPlan("KEEPFIT_DISABLE=1 keeps the agent out of the script, and a plan needs it there")
    limit = limits.effective(cgroup.placement(), environment, wanted.memory)
    if limit is None:
        raise CannotPlan("this machine does not tell how much memory there is; give --memory SIZE")
    room = limit.bytes - wanted.reserve
    if room <= 0:
        raise CannotPlan(f"--reserve leaves nothing of {limit.bytes >> 20} MiB ({limit.source})")

    asked = largest.Wanted(room, wanted.multiple, wanted.most)
    memory = _Memory(wanted, asked)

    def small(heard: Rehearsal) -> Ask | None:
        facts = forecast.Facts.of(heard.facts or {})
        if wanted.device or facts.cut or memory.of(facts):
            return None
        tried = _trials(heard)
        if not climbs and (rows := forecast.next_trial(facts, room, tried)):
            return Ask(rows)
        if not wanted.search or heard.unfenced or not tried:
            return None
        last = tried[-1].rows
        higher = largest.Search(facts, tried, asked.of(facts)).next_climb()
        # The last of all is noted, and another size before it: what goes by the rows is seen by both.
        if facts.pooled and last not in noted and not (higher and noted):
            noted.append(last)
            return Ask(last, noting=True)
        if higher:
            climbs.append(higher)
            return Ask(higher)
        return None

    climbs: list[int] = []  # rows
    noted: list[int] = []  # the same
    began = time.monotonic()
    heard = rehearse(wanted.argv, environment, room, wanted.timeout, small)
    facts = _facts(heard, room, wanted.timeout)
    small_ones, climbed = ([t for t in _trials(heard) if (t.rows in climbs) is on] for on in (False, True))
    overshot = [largest.Attempt(overshot=heard.trying)] if heard.died_trying and heard.trying else []
    made = Plan(limit, facts, small_ones, climbed=climbed, unfenced=heard.unfenced,
                wanted=asked.of(facts), noted=_noted(heard),
                came_after=heard.came - began,
                reached=heard.died_trying and heard.trying <= facts.rows,
                attempts=overshot)  # fmt: skip
    if wanted.device is not None:
        if not facts.static:
            raise CannotPlan("--for: a training step with a graph was expected; this one runs eagerly, or is a loop")
        made.device = wanted.device
        return made
    if known := memory.of(facts):
        made.trials = [Trial(*one) for one in known["trials"]]
        made.attempts = [largest.Attempt(tuple(Trial(*one) for one in ran)) for ran in known["attempts"]]
        made.remembered = True
    elif wanted.search and made.trials and not made.unfenced:
        _search(made, wanted, environment)
    memory.keep(made)
    return made


class _Memory:
    """Earlier plans: what was tried of the very same training, and what the same one needed with other versions."""

    def __init__(self, wanted: PlanOptions, asked: largest.Wanted) -> None:
        self._runs, self._asked, self._search = wanted.runs, asked, wanted.search

    def of(self, facts: forecast.Facts) -> Mapping[str, Any] | None:
        """What was tried, where the script held as much before its training call then as it does now."""
        found = choices.recall(self._runs, self._name(facts)) if self._runs and facts.static else None
        return found if found and abs(int(found["in_use"]) - facts.in_use) < forecast.CHANCE else None

    def _name(self, facts: forecast.Facts) -> str:
        """What the graph keeps alive is in it: strides, padding or a policy change that, and no weight's shape."""
        asked = self._asked.of(facts)
        words = (facts.told.get("key"), asked.limit, asked.multiple, asked.most, self._search, facts.static,
                 sorted(facts.malloc.items()), facts.pooled)  # fmt: skip
        return f"search {words}"

    def keep(self, made: Plan) -> None:
        told, point = made.facts.told, made.point
        if not told.get("key") or self._runs is None:
            return
        name = f"forecast {told['likeness']} {point.how}"
        before = choices.recall(self._runs, name) or {}
        report = {"kind": "plan", "peak": point.peak, "low": point.low, "high": point.high,
                  "versions": list(told["versions"]), "before": before.get("peak"),
                  "versions_before": before.get("versions")}  # fmt: skip
        made.findings += findings(report, "preflight")
        now = time.time()
        with contextlib.suppress(OSError):
            self._runs.mkdir(parents=True, exist_ok=True, mode=0o700)
        choices.remember(self._runs, name, now, {"peak": point.peak, "versions": told["versions"]})
        if not made.remembered and not made.overshot and not made.reached:
            attempts = [_as_kept(attempt.ran) for attempt in made.attempts]  # none of which came to the limit
            known = {"in_use": made.facts.in_use, "trials": _as_kept(made.trials), "attempts": attempts}
            choices.remember(self._runs, self._name(made.facts), now, known)


def _as_kept(trials: Sequence[Trial]) -> list[list[float]]:
    return [[trial.rows, trial.peak, trial.seconds] for trial in trials]


@dataclass(frozen=True)
class Applied:
    """What a run begins with, by its plan: in words, and in its environment. The micro-batch lies where a run looks."""

    said: str
    environment: Mapping[str, str] = field(default_factory=dict)


def apply(options: RunOptions, environment: Mapping[str, str]) -> Applied:
    """Plan what is about to be run, and let it begin with what keeps its results and needs no change of the script.

    What was measured goes where a run looks for what an earlier one has measured, so that it chooses its micro-batch at
    once. A plan that fails is no obstacle.
    """
    try:
        made = plan(PlanOptions(options.argv, options.memory, search=False, runs=options.runs), environment)
    except Exception as error:  # whatever it is: what was asked for is the run
        return Applied(f"no plan ({error}); it runs as without --apply")
    need = f"batch {made.facts.rows} needs about {size(made.point.peak)} of {size(made.limit.bytes)}"
    changes = _malloc(made)
    facts = replace(made.facts, epochs=1) if changes else made.facts  # as if no epoch left anything to the next
    known = forecast.line(facts, made.trials)
    begins = [f"{name}={value}" for name, value in changes.items()]
    if known is None or not facts.told.get("key"):
        begins.append("nothing was measured that a micro-batch could be chosen by")
    else:
        room = Room(made.wanted.limit - facts.later, 0)
        above = known.base - facts.in_use + facts.model["trainable"]  # in parts, their sum of gradients comes to it
        choices.remember(options.runs, str(facts.told["key"]), time.time(), {"above": above, "slope": known.slope})
        rows = choose(room, facts.rows, Line(facts.in_use + above, known.slope))
        begins.append("it runs whole" if rows == facts.rows else f"micro-batches of about {rows}")
    return Applied(f"planned: {need}; {', '.join(begins)}", changes)


def _malloc(made: Plan) -> dict[str, str]:
    """How malloc keeps less, where that is among the options and the training may not fit, or might not an hour
    later."""
    offered = any(option.name == "lean_malloc" for option in _options(made))
    doubtful = forecast.DOUBT * made.point.peak > made.room
    return {setting: forecast.LEAN_MALLOC[setting] for setting in made.facts.unchosen if offered and doubtful}


def _search(made: Plan, wanted: PlanOptions, environment: Mapping[str, str]) -> None:
    """Verify the largest batch, each attempt in a process of its own."""
    before = [*made.trials, *made.climbed]
    slowest = max(trial.seconds / trial.rows for trial in before)
    while rows := made.search.next_size():

        def sizes(heard: Rehearsal, rows: int = rows) -> Ask | None:
            if not heard.tried:
                return None if (heard.facts or {}).get("cut") else Ask(rows)
            more = made.search.next_stretch(_trials(heard))
            return Ask(more) if more else None

        patience = PATIENCE * (made.came_after + made.search.stretches * slowest * rows)
        heard = rehearse(wanted.argv, environment, made.wanted.limit, wanted.timeout, sizes, rows, patience)
        ran = tuple(_trials(heard))
        overshot = (heard.trying or rows) if heard.died_trying or heard.thrashing else 0
        if not ran and not overshot:
            break
        made.attempts.append(largest.Attempt(ran, overshot))


def _trials(heard: Rehearsal) -> list[Trial]:
    names = ("rows", "peak", "seconds", "spread")
    return [Trial(*(one[name] for name in names)) for one in heard.tried]


def _noted(heard: Rehearsal) -> list[Steps]:
    return [Steps.of(event) for event in heard.events if event["event"] == "pool"]


def _facts(heard: Rehearsal, room: int, seconds: float) -> forecast.Facts:
    """What was seen at the training call; CannotPlan where it was not reached."""
    if heard.facts is not None and not heard.failed:
        return forecast.Facts.of(heard.facts)
    if heard.failed:
        raise CannotPlan(f"the first training call could not be looked at: {' '.join(heard.failed.split())}")
    if heard.late:
        raise CannotPlan(f"no training call after {seconds:.0f} s (--timeout); the script was {_doing(heard)}")
    if heard.reached:
        raise CannotPlan(f"the script needs more than {room >> 20} MiB before its first training call")
    if heard.status:
        how = f"status {heard.status}" if heard.status > 0 else f"signal {-heard.status}"
        raise CannotPlan(f"the script ended with {how} before any training call")
    raise CannotPlan("the script ended without a training call (fit, train_on_batch or apply_gradients)")


def _doing(heard: Rehearsal) -> str:
    awake = [event["framework"] for event in heard.events if event.get("state") == "awake"]
    return f"preparing, with {' and '.join(awake)} imported" if awake else "not yet using a framework"


def document(made: Plan) -> dict[str, Any]:
    """The plan as the contract has it."""
    point, facts = made.point, made.facts
    told, limit = facts.told, made.device or made.limit
    return {
        "schema": "keepfit.plan/1",
        "device": "gpu:0" if made.device else "host",
        "limit_bytes": limit.bytes,
        "limit_source": limit.source,
        "batch_size": facts.rows,
        "samples": facts.samples,
        "predicted_peak_bytes": point.peak,
        "interval_bytes": [point.low, point.high],
        "coverage": made.coverage,
        "how": point.how,
        "static_peak_bytes": point.peak if made.device else forecast.static(facts, facts.rows).peak,
        "fits": bool(made.fits),
        "known": made.fits is not None,
        "largest_batch": made.largest or None,
        "verified": bool(made.largest) and not made.device,
        "trials": len(made.attempts),  # of the largest batch
        "small_trials": len(made.trials),
        "overshot": len(made.overshot),
        "grows": facts.grows and made.device is None,
        "tried": [{"rows": t.rows, "peak_bytes": t.peak, "seconds": round(t.seconds, 4)}
                  for t in (*made.trials, *made.climbed, *made.verified)],
        "peak_in": point.where,
        "breakdown": forecast.breakdown_on_device(facts) if made.device else forecast.breakdown(facts, point),
        "phases": [] if made.device else forecast.phases(facts, point),
        "layers": [dict(layer) for layer in facts.layers],
        "options": [{**option.document(), "fits": made.would_fit(option)} for option in _options(made)],
        "pipeline": [dict(stage) for stage in facts.pipeline],
        "findings": [as_json(finding) for finding in made.findings],
        "remembered": made.remembered,
        "wrote": list(told.get("wrote") or ()),
        "seconds": dict(told.get("seconds") or {}),
        "not_counted": not_counted(made),
    }  # fmt: skip


def _options(made: Plan) -> list[priced.Option]:
    if made.device is not None:
        return priced.priced_on_device(made.facts, made.device.bytes)
    return priced.priced(made.facts, made.tried, made.wanted.limit)


def not_counted(made: Plan) -> list[str]:
    facts = made.facts
    if made.device is not None:
        return [
            "the driver's context, workspaces of convolutions, and what the allocator keeps",
            "everything on the host: runtime, input pipeline, data held in memory",
        ]
    found = ["what callbacks and the script's own code take while it trains"]
    if made.fits is None:
        found.append("the training step itself: it has no graph, and nothing of it was tried")
    if facts.grows:
        keeper = "TensorFlow's pool" if facts.pooled else "malloc"
        found.append(f"what {keeper} keeps of later steps, which may be more than of those that were tried")
    if made.unfenced:
        found.append(f"the largest batch: no cgroup could be made to hold it at the limit ({made.unfenced})")
    if why := (facts.told.get("validation") or {}).get("failed"):
        found.append(f"the validation: {why}")
    if facts.told.get("first_only"):
        found.append("sequences longer than those of the first batch")
    if any(stage["stage"] == "cache" and not stage["elements"] for stage in facts.pipeline):
        found.append("a cache in memory, of a dataset that does not tell how long it is")
    if facts.cut:
        found.append(f"a measurement: {facts.cut}")
    if facts.told.get("own_step"):
        found.append("what a train_step of the model's own does outside of its graph")
    if int(facts.told.get("replicas") or 1) > 1:
        found.append(f"the other {int(facts.told['replicas']) - 1} replicas: the forecast is for one")
    if not facts.static:
        found.append("activations by layer: the model runs eagerly, and has no graph")
    return found
