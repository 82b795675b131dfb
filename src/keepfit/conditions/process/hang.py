"""The training stopped moving.

## What happened
No step was finished for far longer than steps take, and nothing in the process tree moved either:
no CPU, no I/O, no page faults. Typical: two threads that wait for each other's lock, a data worker
that died while its parent waits, a collective operation whose peer is gone, a network file system
that does not answer.

## How keepfit knows
*Suspected* (a warning, stacks into the record, nothing stopped): no heartbeat in phase `train` for
max(10 s, 5 × the slowest step). *hang*: no heartbeat for max(90 s, 20 × the slowest step), and over
that time either no progress at all, or two stack dumps 30 s apart that are the same while the tree
uses less than 5 % of a core. A tree that computes is never called hung: one long native operation
looks the same from Python. Never while it is stopped, held by a debugger, waiting at a prompt, in a
user's callback, saving, between two fits or filling a buffer, unless `--hang-after SECONDS` says
so.

The body of a hand-written loop is the user's own code and may be over without anybody seeing it:
there a hang is only ever suspected; waiting for its dataset's next element counts in full.

## What to do
The stacks name the line every thread stands in.
"""

from __future__ import annotations

import enum

from ...facts import Attempt, Evidence, Remedy
from ...quick import dataclass
from ..catalogue import OWN_ACT, Condition, Diagnosis
from ..reading import at, by_exit, own_frame_of

SUSPECT_SECONDS, SUSPECT_STEPS = 10.0, 5.0
HANG_SECONDS, HANG_STEPS = 90.0, 20.0
STACKS_APART = 30.0
IDLE = 0.05  # of one core


class Watchfulness(enum.Enum):
    FINE = "fine"
    SUSPECTED = "suspected"
    HANG = "hang"


@dataclass(frozen=True)
class Stillness:
    """What is known about a training that has not said anything for a while."""

    phase: str | None  # None: no heartbeat was ever heard
    doing: str
    silent: float  # seconds since the last heartbeat, or since it went over to what it does
    slowest: float  # seconds of the slowest step so far
    motionless: float  # seconds without CPU, I/O, faults or output anywhere in the tree
    same_stacks: float  # seconds over which two or more stack dumps were identical
    cpu_share: float  # of one core, over the last seconds
    excused: str | None = None  # stopped, debugged, at a prompt
    hang_after: float | None = None


def assess(still: Stillness) -> tuple[Watchfulness, str]:
    """The rule, and by which part of it. Pure."""
    if still.excused is not None:
        return Watchfulness.FINE, still.excused
    if still.hang_after is not None:
        return _asked(still)
    if still.phase != "train" or still.doing not in ("stepping", "looping"):
        return Watchfulness.FINE, still.doing
    if still.doing == "stepping" and still.silent >= max(HANG_SECONDS, HANG_STEPS * still.slowest):
        if still.motionless >= max(HANG_SECONDS, HANG_STEPS * still.slowest):
            return Watchfulness.HANG, "progress"
        if still.same_stacks >= STACKS_APART and still.cpu_share < IDLE:
            return Watchfulness.HANG, "stacks"
    if still.silent >= max(SUSPECT_SECONDS, SUSPECT_STEPS * still.slowest):
        return Watchfulness.SUSPECTED, "silent"
    return Watchfulness.FINE, ""


def _asked(still: Stillness) -> tuple[Watchfulness, str]:
    """`--hang-after`: the user's own number, for heartbeats, or for motion where there are none."""
    assert still.hang_after is not None
    quiet = still.silent if still.phase in ("train", "validation", "trace") else min(still.silent, still.motionless)
    if quiet >= still.hang_after:
        return Watchfulness.HANG, "asked"
    return (Watchfulness.SUSPECTED, "silent") if quiet >= still.hang_after / 2 else (Watchfulness.FINE, "")


_RULES = {
    "progress": "no CPU, I/O or page-fault progress in the whole tree meanwhile",
    "stacks": "all stacks were the same 30 s apart, and the tree did not compute",
    "asked": "longer than --hang-after allows",
}


def autopsy(attempt: Attempt) -> Diagnosis | None:
    stall = attempt.stall
    if stall is None:
        return None
    why = _RULES.get(stall.rule, stall.rule)
    evidence = [Evidence("samples", f"no step for {stall.silent_seconds:.0f} s; {why}")]
    frame = own_frame_of(stall.stacks)
    if frame is not None:
        evidence.append(Evidence("agent", f"a thread stood in {frame.file}, line {frame.line}, in {frame.function}"))
    evidence.append(by_exit(attempt))
    confidence = "certain" if stall.rule == "progress" else "likely"
    return Diagnosis(
        confidence, "it hung: the training stopped moving, and keepfit ended it", tuple(evidence), at(frame)
    )


CONDITION = Condition(
    code="KF504",
    name="hang",
    title="it hung: the training stopped moving",
    cause="hang",
    specificity=OWN_ACT,
    autopsy=autopsy,
    remedies=(Remedy("read where every thread stands", "stacks/ in the run's directory"),),
)
