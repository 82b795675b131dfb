"""A plan: the command is run up to its first training call, in a process of its own, and forecast from there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from ..blackbox import choices
from ..conditions.reading import size
from ..machine import cgroup, interpreter, limits
from ..plan import forecast, largest
from ..plan.micro_batch import Line, Room, choose
from ..plan.pool import Steps
from ..plan.whole import Plan
from ..quick import dataclass
from .earlier import EarlierPlans
from .first_trials import FirstTrials
from .interrupt import Interrupt
from .launch import USAGE, CannotLaunch
from .options import PlanOptions, RunOptions
from .rehearsal import Rehearsal, is_read_once, rehearse
from .searching import search
from .waiting import Waiting


class CannotPlan(CannotLaunch):
    """Why, in a line."""

    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


def plan(wanted: PlanOptions, environment: Mapping[str, str]) -> Plan:
    """All that was found out; from the training call on, Ctrl-C ends it with what is known by then."""
    with Interrupt() as stop:
        made = _plan(wanted, environment, stop)
        made.interrupted = stop.came
        return made


def _plan(wanted: PlanOptions, environment: Mapping[str, str], stop: Interrupt) -> Plan:
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

    trials = FirstTrials(wanted, limit, asked, earlier)
    began = time.monotonic()
    waiting = Waiting(wanted.say, wanted.timeout)
    heard = rehearse(wanted.argv, environment, room, wanted.timeout, trials.next,
                     spared=wanted.spared, waiting=waiting, stop=stop)  # fmt: skip
    facts = _facts(heard, room, wanted.timeout)
    small, climbed = ([t for t in heard.trials if (t.rows in trials.climbs) is on] for on in (False, True))
    overshot = [largest.Attempt(overshot=heard.trying)] if heard.died_trying and heard.trying else []
    made = Plan(limit, facts, small, climbed=climbed, unfenced=heard.unfenced,
                wanted=asked.of(facts), budget=wanted.memory, noted=_noted(heard),
                came_after=heard.came - began,
                reached=heard.died_trying and heard.trying <= facts.rows,
                attempts=overshot, hurried=trials.hurried(heard))  # fmt: skip
    if wanted.device is not None:
        if not facts.static:
            raise CannotPlan("--for: a training step with a graph was expected; this one runs eagerly, or is a loop")
        made.device = wanted.device
        return made
    if known := earlier.tried(facts):
        made.trials, made.attempts = known
        made.remembered = True
    elif wanted.search and (made.trials or made.overshot) and not made.unfenced:
        ends = trials.ends if trials.ends is not None else time.monotonic() + wanted.search_for
        search(made, wanted, environment, ends, stop)
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
        wanted = PlanOptions(options.argv, options.memory, runs=options.runs, spared=True)
        made = plan(wanted, environment)
    except Exception as error:  # whatever it is: what was asked for is the run
        return Applied(f"no plan ({error}); it runs as without --apply")
    if made.interrupted:  # which was meant for what was asked for, too
        raise KeyboardInterrupt
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
            f"the command ended with {heard.ending}, and keepfit's agent was in no Python process of it: a "
            "training was not seen, and may have been run (python -E, -I and -S keep the agent out, and so does an "
            "environment without PYTHONPATH)"
        )
    if heard.status:
        how = heard.ending
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
