"""The data was loaded whole, and did not fit.

## What happened
Memory climbed while the script prepared its data, before the first training step: a corpus
tokenised up front, a folder of images stacked into one array, `from_tensor_slices` of something
large (which copies it once more).

## How keepfit knows
*likely*: it died of memory in phase `data`, with no step done, after a climb. It needs the agent
(the phase comes from it).

## What to do
Stream: read, tokenise or decode inside the input pipeline, batch by batch; `np.load(…,
mmap_mode="r")` for arrays.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition
from ..reading import size
from .growth import CLIMB_SHARE, MEMORY_CAUSES, start_of


def because(attempt: Attempt, cause: str) -> Evidence | None:
    beat = attempt.last_beat
    if cause not in MEMORY_CAUSES or beat is None or beat.phase != "data" or beat.steps > 0:
        return None
    began = next(earlier.time for earlier in attempt.beats if earlier.phase == "data")
    grown = attempt.peak - start_of(attempt, began)
    if attempt.limit is None or grown < CLIMB_SHARE * attempt.limit.bytes:
        return None
    return Evidence("agent", f"memory grew by {size(grown)} while data was prepared, before the first step", "likely")


CONDITION = Condition(
    code="KF111",
    name="data-preloaded",
    title="the data was loaded whole, before the first step",
    root="data_preloaded",
    because=because,
    remedies=(Remedy("stream the data", "load, decode or tokenise inside the input pipeline, batch by batch"),),
)
