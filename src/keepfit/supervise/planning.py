"""A plan: the command is run up to its first training call, in a process of its own, and forecast from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..facts import MemoryLimit
from ..machine import cgroup, limits
from ..plan import forecast, largest, options
from ..plan.micro_batch import Trial
from .rehearsal import Rehearsal, rehearse

SECONDS = 600.0  # that a script may take to come to its training call


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


@dataclass
class Plan:
    """All that was found out."""

    limit: MemoryLimit
    facts: forecast.Facts
    trials: list[Trial]
    verified: list[Trial] = field(default_factory=list)
    overshot: int = 0  # trials that came to the limit
    wanted: largest.Wanted = field(default_factory=lambda: largest.Wanted(0))

    @property
    def point(self) -> forecast.Point:
        return forecast.forecast(self.facts, self.trials, self.facts.rows)

    @property
    def largest(self) -> int:
        return largest.largest(self.verified, self.wanted)


def plan(wanted: PlanOptions, environment: Mapping[str, str]) -> Plan:
    limit = limits.effective(cgroup.placement(), environment, wanted.memory)
    if limit is None:
        raise CannotPlan("this machine does not tell how much memory there is; give --memory SIZE")
    room = limit.bytes - wanted.reserve
    if room <= 0:
        raise CannotPlan(f"--reserve leaves nothing of {limit.bytes >> 20} MiB ({limit.source})")

    def small(heard: Rehearsal) -> int:
        return forecast.next_trial(forecast.Facts.of(heard.facts or {}), room, _trials(heard))

    heard = rehearse(wanted.argv, environment, {"at": "first"}, room, wanted.timeout, small)
    made = Plan(limit, _facts(heard, room, wanted.timeout), _trials(heard))
    made.wanted = largest.Wanted(room, wanted.multiple, wanted.most)
    if wanted.search:
        _search(made, wanted, environment)
    return made


def _search(made: Plan, wanted: PlanOptions, environment: Mapping[str, str]) -> None:
    """Verify the largest batch, each size in a process of its own."""
    tried: list[Trial] = []  # with those that came to the limit, as if they had needed all of it
    while rows := largest.next_size(made.facts, made.trials, tried, made.wanted):

        def one(heard: Rehearsal, rows: int = rows) -> int:
            return 0 if heard.tried else rows

        heard = rehearse(wanted.argv, environment, {"at": rows}, made.wanted.limit, wanted.timeout, one)
        done = _trials(heard)
        if heard.reached or not done:
            made.overshot += int(heard.reached)
            tried.append(Trial(rows, made.wanted.limit + 1))
            break
        tried.append(done[0])
        made.verified.append(done[0])


def _trials(heard: Rehearsal) -> list[Trial]:
    return [Trial(int(one["rows"]), int(one["peak"]), float(one["seconds"])) for one in heard.tried]


def _facts(heard: Rehearsal, room: int, seconds: float) -> forecast.Facts:
    """What was seen at the training call; CannotPlan where it was not reached."""
    if heard.facts is not None and not heard.failed:
        return forecast.Facts.of(heard.facts)
    if heard.failed:
        raise CannotPlan(f"the first training call could not be looked at: {heard.failed}")
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
    told = facts.told
    return {
        "schema": "keepfit.plan/1",
        "device": "host",
        "limit_bytes": made.limit.bytes,
        "limit_source": made.limit.source,
        "batch_size": facts.rows,
        "predicted_peak_bytes": point.peak,
        "interval_bytes": [point.low, point.high],
        "coverage": None,  # until it was measured
        "how": point.how,
        "static_peak_bytes": forecast.static(facts, facts.rows).peak,
        "fits": point.high - facts.files <= made.wanted.limit,
        "largest_batch": made.largest or None,
        "verified": bool(made.largest),
        "trials": len(made.trials) + len(made.verified) + made.overshot,
        "overshot": made.overshot,
        "tried": [{"rows": t.rows, "peak_bytes": t.peak, "seconds": round(t.seconds, 4)}
                  for t in (*made.trials, *made.verified)],
        "breakdown": forecast.breakdown(facts, point),
        "layers": [dict(layer) for layer in facts.layers],
        "options": [option.document() for option in options.priced(facts, made.trials, made.wanted.limit)],
        "pipeline": [dict(stage) for stage in facts.pipeline],
        "wrote": list(told.get("wrote") or ()),
        "seconds": dict(told.get("seconds") or {}),
        "not_counted": not_counted(facts),
    }  # fmt: skip


def not_counted(facts: forecast.Facts) -> list[str]:
    found = ["what callbacks and the script's own code take while it trains"]
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
