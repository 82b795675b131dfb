"""A plan: the command is run up to its first training call, in a process of its own, and forecast from there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from ..blackbox import choices
from ..conditions.reading import size
from ..facts import MemoryLimit
from ..machine import cgroup, interpreter, limits
from ..plan import forecast, largest
from ..plan.micro_batch import Line, Room, Trial, choose
from ..plan.pool import Steps
from ..plan.whole import Plan
from ..quick import dataclass
from .earlier import EarlierPlans
from .launch import USAGE, CannotLaunch
from .options import RunOptions
from .rehearsal import Ask, Rehearsal, is_read_once, rehearse

SECONDS = 600.0  # that a script may take to come to its training call
PATIENCE = 10.0  # times what it took to come there, and what a step of that size should take: it may be thrashing


class CannotPlan(CannotLaunch):
    """Why, in a line."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


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
    say: Callable[[str], None] = lambda _text: None  # what takes a while
    spared: bool = False  # a pipe at standard input: somebody else is to read it


def plan(wanted: PlanOptions, environment: Mapping[str, str]) -> Plan:
    check_for_the_agent(wanted.argv, environment)
    limit = limits.effective(cgroup.placement(), environment, wanted.memory)
    if limit is None:
        raise CannotPlan("this machine does not tell how much memory there is; give --memory SIZE")
    room = limit.bytes - wanted.reserve
    if room <= 0:
        raise CannotPlan(f"--reserve leaves nothing of {limit.bytes >> 20} MiB ({limit.source})")

    asked = largest.Wanted(room, wanted.multiple, wanted.most)
    stated = limit.kind != "host"  # and no other an hour later
    earlier = EarlierPlans(wanted.runs, asked, wanted.search, stated)

    def small(heard: Rehearsal) -> Ask | None:
        facts = forecast.Facts.of(heard.facts or {})
        if wanted.device or facts.cut or earlier.tried(facts):
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
    heard = rehearse(wanted.argv, environment, room, wanted.timeout, small, spared=wanted.spared)
    facts = _facts(heard, room, wanted.timeout)
    small_ones, climbed = ([t for t in _trials(heard) if (t.rows in climbs) is on] for on in (False, True))
    overshot = [largest.Attempt(overshot=heard.trying)] if heard.died_trying and heard.trying else []
    made = Plan(limit, facts, small_ones, climbed=climbed, unfenced=heard.unfenced,
                wanted=asked.of(facts), budget=wanted.memory, noted=_noted(heard),
                came_after=heard.came - began,
                reached=heard.died_trying and heard.trying <= facts.rows,
                attempts=overshot)  # fmt: skip
    if wanted.device is not None:
        if not facts.static:
            raise CannotPlan("--for: a training step with a graph was expected; this one runs eagerly, or is a loop")
        made.device = wanted.device
        return made
    if known := earlier.tried(facts):
        made.trials, made.attempts = known
        made.remembered = True
    elif wanted.search and (made.trials or made.overshot) and not made.unfenced:
        _search(made, wanted, environment)
        made.reached = made.reached and made.largest < facts.rows  # alone in its process it may have run
    made.findings += earlier.keep(made)
    return made


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
        wanted = PlanOptions(options.argv, options.memory, search=False, runs=options.runs, spared=True)
        made = plan(wanted, environment)
    except Exception as error:  # whatever it is: what was asked for is the run
        return Applied(f"no plan ({error}); it runs as without --apply")
    need = f"batch {made.facts.rows} needs about {size(made.point.peak - made.facts.files)} of {size(made.limit.bytes)}"
    differs = any(option.name == "micro_batch" and not option.exact for option in made.options)
    changes = _malloc(made)
    facts = replace(made.facts, epochs=1) if changes else made.facts  # as if no epoch left anything to the next
    known = forecast.line(facts, made.trials)
    begins = [f"{name}={value}" for name, value in changes.items()]
    if known is None or not facts.told.get("key"):
        begins.append("nothing was measured that a micro-batch could be chosen by")
    elif differs:
        begins.append("micro-batches would change the results: what of them the run needs, it finds by itself")
    else:
        room = Room(made.wanted.limit - facts.later, 0)
        above = known.base - facts.in_use + facts.model["trainable"]  # in parts, their sum of gradients comes to it
        choices.remember(options.runs, str(facts.told["key"]), time.time(), {"above": above, "slope": known.slope})
        rows = choose(room, facts.rows, Line(facts.in_use + above, known.slope))
        begins.append("it runs whole" if rows == facts.rows else f"micro-batches of about {rows}")
    if is_read_once():
        begins.append("without standard input, which was left to the run")
    return Applied(f"planned: {need}; {', '.join(begins)}", changes)


def _malloc(made: Plan) -> dict[str, str]:
    """How malloc keeps less, where that is among the options and the training may not fit, or might not an hour
    later."""
    offered = any(option.name == "lean_malloc" for option in made.options)
    doubtful = forecast.DOUBT * made.point.peak > made.room
    return {setting: forecast.LEAN_MALLOC[setting] for setting in made.facts.unchosen if offered and doubtful}


def _search(made: Plan, wanted: PlanOptions, environment: Mapping[str, str]) -> None:
    """Verify the largest batch, each attempt in a process of its own."""
    before = [*made.trials, *made.climbed]
    slowest = max((trial.seconds / trial.rows for trial in before), default=0.0)
    while rows := made.search.next_size():

        def sizes(heard: Rehearsal, rows: int = rows) -> Ask | None:
            if not heard.tried:
                return None if (heard.facts or {}).get("cut") else Ask(rows)
            more = made.search.next_stretch(_trials(heard))
            return Ask(more) if more else None

        patience = PATIENCE * (made.came_after + made.search.stretches * slowest * rows)
        wanted.say(f"the script runs again, up to its training call, to try {rows} rows in a process of its own")
        heard = rehearse(wanted.argv, environment, made.wanted.limit, wanted.timeout, sizes, rows, patience)
        ran = tuple(_trials(heard))
        overshot = (heard.trying or rows) if heard.died_trying or heard.thrashing else 0
        if not (ran or overshot) or _is_another(heard, made.facts):
            made.unverified = _not_again(heard, made.facts)
            break
        made.attempts.append(largest.Attempt(ran, overshot))


def _is_another(heard: Rehearsal, facts: forecast.Facts) -> bool:
    """What was trained in a process of its own: a script that reads a pipe finds nothing there the second time."""
    weights = (heard.facts or {}).get("weights")
    return weights is not None and weights != facts.model["weights"]


def _not_again(heard: Rehearsal, facts: forecast.Facts) -> str:
    """Why a process of its own, in which a size was to be verified, says nothing of one."""
    if _is_another(heard, facts):
        why = "trained another model"
    elif heard.failed:
        why = f"failed at its training call ({' '.join(heard.failed.split())})"
    elif heard.late:
        why = "had tried no step" if heard.facts is not None else "came to no training call"
        why += " when its time was over (--timeout)"
    elif heard.status is not None:
        why = f"ended with {_ending(heard.status)}"
    elif heard.reached:
        why = "came to the limit before its training call"
    else:
        why = f"could not try it: {(heard.facts or {}).get('cut') or 'nothing was heard of it'}"
    return f"the script, when it ran again, {why}"


def _ending(status: int) -> str:
    return f"status {status}" if status >= 0 else f"signal {-status}"


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
        raise CannotPlan(f"the first training call cannot be planned: {' '.join(heard.failed.split())}")
    if heard.late:
        raise CannotPlan(f"no training call after {seconds:.0f} s (--timeout); the script was {_doing(heard)}")
    begun = next((event for event in heard.events if event["event"] == "fitting"), None)
    if heard.reached:
        raise CannotPlan(_too_much(room, begun))
    if heard.status is not None and _is_unseen(heard):
        raise CannotPlan(
            f"the command ended with {_ending(heard.status)}, and keepfit's agent was in no Python process of it: a "
            "training was not seen, and may have been run (python -E, -I and -S keep the agent out, and so does an "
            "environment without PYTHONPATH)"
        )
    if heard.status:
        how = _ending(heard.status)
        raise CannotPlan(f"the script ended with {how} before {'the first step' if begun else 'any training call'}")
    raise CannotPlan("the script ended without a training call (fit, train_on_batch or apply_gradients)")


def check_for_the_agent(argv: tuple[str, ...], environment: Mapping[str, str]) -> None:
    """Without it in the script, nobody would stop that at its training call."""
    letter = interpreter.keeps_out(interpreter.options(argv))
    why = "KEEPFIT_DISABLE=1" if environment.get("KEEPFIT_DISABLE") == "1" else f"python -{letter}" if letter else ""
    if why:
        raise CannotPlan(f"{why} keeps the agent out of the script, and a plan needs it there")


def _too_much(room: int, begun: Mapping[str, Any] | None) -> str:
    """What came to the limit before the first step: the script, or its `fit`, which makes tensors of arrays."""
    if begun is None:
        return f"the script needs more than {size(room)} before its first training call"
    said = f"the first training call needs more than {size(room)} before its first step; {size(int(begun['in_use']))}"
    said += " were in use when it was made"
    if not (arrays := int(begun["arrays"])):
        return said
    return (
        f"{said}, and it makes tensors of the {size(arrays)} of arrays that it is given: read them from files while it "
        "trains (tf.data.TFRecordDataset, keras.utils.image_dataset_from_directory)"
    )


def _is_unseen(heard: Rehearsal) -> bool:
    """The agent never came up in it."""
    return not any(event["event"] == "agent" for event in heard.events)


def _doing(heard: Rehearsal) -> str:
    if _is_unseen(heard):
        return "not seen: keepfit's agent was in no Python process of it"
    awake = [event["framework"] for event in heard.events if event.get("state") == "awake"]
    return f"preparing, with {' and '.join(awake)} imported" if awake else "not yet using a framework"
