"""All that was found out of a training, and what it comes to: in numbers, and as the contract has it."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

from ..facts import Finding, MemoryLimit, as_json
from ..quick import dataclass
from . import forecast, largest
from . import options as priced
from .micro_batch import Trial
from .pool import Replay, Steps

# In TensorFlow's pool: an autoencoder's 280 rows came to 1,743 or to 2,057 MiB, in two processes of four each.
OTHER_ORDER = 1.18


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
    unverified: str = ""  # why no size could be tried in a process of its own
    hurried: str = ""  # what of the small batches was not tried, for want of time
    ended: str = ""  # how the search for the largest batch came to an end before it was through
    interrupted: bool = False  # by Ctrl-C
    budget: int | None = None  # bytes that were asked for, which may be more than there are
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
    def alone(self) -> list[Trial]:
        """Those that nothing had run before in their process, as nothing will before the training."""
        return [attempt.ran[0] for attempt in self.attempts if attempt.ran]

    @property
    def tried(self) -> list[Trial]:
        """What a forecast is made of: behind other sizes in the same process one needs more.

        A single small batch, behind which there was no time for another, tells less than the graph.
        """
        lone = self.hurried and self.facts.static and len(self.trials) == 1
        return [*(() if lone else self.trials), *self.alone]

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
    def outlook(self) -> str:
        """What that comes to: fits, may_not_fit, does_not_fit (by all of its interval), unknown."""
        if self.fits is None:
            return "unknown"
        if self.fits:
            return "fits"
        room = self.device.bytes if self.device is not None else self.room
        return "does_not_fit" if self.point.low > room else "may_not_fit"

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
    def options(self) -> list[priced.Option]:
        """What would make it need less, the cheapest first."""
        if self.device is not None:
            return priced.priced_on_device(self.facts, self.device.bytes)
        return priced.priced(self.facts, self.tried, self.wanted.limit)

    @property
    def largest(self) -> int:
        if self.device is not None:
            return self.wanted.rounded(forecast.largest_on_device(self.facts, self.device.bytes))
        # Where both verifications needed too much, what was climbed to has been tried inside the limit, too.
        found = largest.found(self.facts, self.attempts, self.wanted)
        return found or (0 if self.unverified else largest.largest(self.facts, self.climbed, self.wanted))


def document(made: Plan) -> dict[str, Any]:
    """The plan as the contract has it."""
    point, facts = made.point, made.facts
    told, limit = facts.told, made.device or made.limit
    return {
        "schema": "keepfit.plan/1",
        "device": "gpu:0" if made.device else "host",
        "limit_bytes": limit.bytes,
        "limit_source": limit.source,
        "reserved_bytes": 0 if made.device else max(0, limit.bytes - made.wanted.limit),
        "batch_size": facts.rows,
        "samples": facts.samples,
        "predicted_peak_bytes": point.peak,
        "interval_bytes": [point.low, point.high],
        "coverage": made.coverage,
        "how": point.how,
        "static_peak_bytes": forecast.static(facts, facts.rows).peak if facts.static and not made.device else None,
        "code_bytes": 0 if made.device else facts.files,  # in the peak and its interval; gives way, and need not fit
        "fits": bool(made.fits),
        "outlook": made.outlook,
        "largest_batch": made.largest or None,
        "verified": bool(made.largest) and not made.device,
        "trials": len(made.attempts),  # of the largest batch
        "small_trials": len(made.trials),
        "search_ended": made.ended or None,  # before it was through, and how
        "overshot": len(made.overshot),
        "grows": facts.grows and made.device is None,
        "left_for_later_steps_bytes": 0 if made.device else made.wanted.lasting,  # by the largest batch
        "tried": [{"rows": t.rows, "peak_bytes": t.peak, "seconds": round(t.seconds, 4), "alone": t in made.alone}
                  for t in (*made.trials, *made.climbed, *made.verified)],
        "peak_in": point.where,
        "breakdown": forecast.breakdown_on_device(facts) if made.device else forecast.breakdown(facts, point),
        "phases": [] if made.device else forecast.phases(facts, point),
        "layers": [dict(layer) for layer in facts.layers],
        "options": [{**option.document(), "fits": made.would_fit(option)} for option in made.options],
        "pipeline": [dict(stage) for stage in facts.pipeline],
        "findings": [as_json(finding) for finding in made.findings],
        "remembered": made.remembered,
        "wrote": list(told.get("wrote") or ()),
        "seconds": dict(told.get("seconds") or {}),
        "not_counted": not_counted(made),
    }  # fmt: skip


def not_counted(made: Plan) -> list[str]:
    facts = made.facts
    if made.device is not None:
        return [
            "the driver's context, workspaces of convolutions, and what the allocator keeps",
            "everything on the host: runtime, input pipeline, data held in memory",
        ]
    found = [
        "what callbacks and the script's own code take while it trains",
        "what the script does behind its first training call: another model that it trains there may need more",
    ]
    if made.budget is not None and made.budget > made.limit.bytes:
        found.insert(0, f"what of --memory is more than there is here ({made.limit.source})")
    if made.unverified:
        found.append(f"{'another attempt at ' if made.attempts else ''}the largest batch: {made.unverified}")
    if made.hurried:
        found.append(f"what small batches would have shown: {made.hurried}")
    if made.ended:
        found.append(f"batches larger than those that were tried: {made.ended}")
    if made.largest and made.ended and facts.pooled and not largest.found(facts, made.attempts, made.wanted):
        found.append(
            f"what {made.largest} rows need in a process of their own: they ran behind others, and may need more"
        )
    if made.fits is None:
        found.append("the training step itself: it has no graph, and nothing of it was tried")
    if facts.grows:
        keeper = "TensorFlow's pool" if facts.pooled else "malloc"
        found.append(f"what {keeper} keeps of later steps, which may be more than of those that were tried")
    peak = max((trial.peak for trial in made.verified if trial.rows == made.largest), default=0)
    if facts.pooled and OTHER_ORDER * peak > made.wanted.limit:
        found.append(
            f"another order of a step's operations, in which a batch was seen to need {OTHER_ORDER - 1:.0%} more: "
            f"so near the limit {made.largest} rows may not run each time (--reserve leaves them room)"
        )
    if made.unfenced:
        found.append(f"the largest batch: no cgroup could be made to hold it at the limit ({made.unfenced})")
    if why := (facts.told.get("validation") or {}).get("failed"):
        found.append(f"the validation: {why}")
    if facts.told.get("first_only"):
        found.append("sequences longer than those of the first batch")
    if any(stage["stage"] == "cache" and not stage["elements"] for stage in facts.pipeline):
        found.append("a cache in memory, of a dataset that does not tell how long it is")
    if facts.cut:
        found.append(f"what small batches would show, if they were tried: {facts.cut}")
    if facts.told.get("own_step"):
        found.append("what a train_step of the model's own does outside of its graph")
    if int(facts.told.get("replicas") or 1) > 1:
        found.append(f"the other {int(facts.told['replicas']) - 1} replicas: the forecast is for one")
    if not facts.static:
        found.append("activations by layer: the model runs eagerly, and has no graph")
    return found
