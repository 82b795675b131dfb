"""Whether to start again after a death, and after what pause: pure judgement.

Every attempt changes something or is not made: a smaller micro-batch, or a later batch to go on from. What ended
the last one decides how often it may happen without anything having been gained.
"""

from __future__ import annotations

from ..blackbox.states import Manifest
from ..facts import Verdict
from ..quick import dataclass


@dataclass(frozen=True)
class Patience:
    """What is put up with, for one cause of death."""

    fruitless: int  # deaths in a row without progress that may be followed by another attempt
    pause: float = 0.0  # seconds before it, twice as long after every fruitless one
    from_nothing: bool = False  # worth another attempt even where nothing was saved: the cause is outside


MEMORY = frozenset({"memory_budget", "cgroup_oom", "host_oom", "allocation_failed", "model_too_large"})
CRASHES = frozenset({"segfault", "abort"})  # as libraries end that were refused memory

PATIENCE = {
    **dict.fromkeys(("segfault", "abort", "bus_error", "illegal_instruction"), Patience(0)),
    **dict.fromkeys(MEMORY, Patience(0)),
    "hang": Patience(0),
    **dict.fromkeys(("killed_unknown", "terminated", "preempted"), Patience(3, from_nothing=True)),
    "network": Patience(5, pause=5.0, from_nothing=True),
    "disk_full": Patience(3, pause=10.0),
}
LONGEST = 300.0  # seconds of pause


CRASHED_NEAR = 0.85  # of the limit: a crash below it was not for want of memory
_IN_A_STEP = ("train", "trace", "validation", "predict")


def wants_less_memory(death: Verdict) -> bool:
    """Whether it died in a step, for want of memory: told so, or crashed with its memory nearly used up."""
    if death.where.phase not in _IN_A_STEP:
        return False
    memory = death.memory
    return death.cause in MEMORY or (
        death.cause in CRASHES and 0 < CRASHED_NEAR * memory.limit_bytes <= memory.peak_bytes
    )


@dataclass(frozen=True)
class Standing:
    """Where the run stands after a death."""

    cause: str
    newest: Manifest | None  # the newest state, if there is one
    before: int  # number of the newest state when the attempt began; 0: there was none
    same: int = 0  # deaths by this cause, without progress, just before this one
    training: bool = True  # a framework was at work


@dataclass(frozen=True)
class Again:
    """Another attempt."""

    changed: str
    pause: float = 0.0
    fruitless: int = 0  # deaths in a row without progress, this one included


def another(standing: Standing, smaller: str | None) -> Again | None:
    """Another attempt, or None. `smaller`: in words, the micro-batch that a death for want of memory calls for."""
    patience = PATIENCE.get(standing.cause)
    if patience is None:
        return None
    newest = standing.newest
    progressed = newest is not None and newest.number > standing.before
    fruitless = 0 if progressed else standing.same + 1
    if smaller is None:
        if fruitless > patience.fruitless and not progressed:
            return None
        if newest is None and not (patience.from_nothing and standing.training):
            return None
    resumed = _resumed(newest) if newest is not None or smaller is None else ""
    words = [word for word in (smaller, resumed) if word]
    pause = min(LONGEST, patience.pause * 2 ** max(0, fruitless - 1))
    return Again(", ".join(words), pause, fruitless)


def _resumed(newest: Manifest | None) -> str:
    return "from the start" if newest is None else f"resumed at {where(newest)}"


def where(manifest: Manifest) -> str:
    """`epoch 3, batch 17`, counted from 1 as Keras prints them."""
    if manifest.kind == "end":
        return f"the end of fit {manifest.fit}"
    fit = f"fit {manifest.fit}, " if manifest.fit > 1 else ""
    return f"{fit}epoch {manifest.epoch + 1}, batch {manifest.batch + 1}"
