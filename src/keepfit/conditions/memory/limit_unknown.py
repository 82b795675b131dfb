"""The limit was far below what the machine shows.

## What happened
A container, a scheduler or the shell allows much less than the machine has. `free`, `top` and
`psutil` show the machine, so the script (or its author) sized itself by the wrong number.

## How keepfit knows
*likely*: the binding limit is less than half of what the host still had to give when it died.

## What to do
Size by the effective limit: `keepfit doctor` prints it, with the name of the level that binds.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition
from ..reading import size
from .growth import MEMORY_CAUSES

SHARE = 0.5


def because(attempt: Attempt, cause: str) -> Evidence | None:
    limit, last = attempt.limit, attempt.last_sample
    if cause not in MEMORY_CAUSES - {"memory_budget"} or limit is None or last is None:
        return None
    if limit.kind not in ("cgroup", "rlimit", "scheduler") or limit.bytes >= SHARE * last.host_available:
        return None
    words = f"the limit is {size(limit.bytes)}, while the machine still had {size(last.host_available)} to give"
    return Evidence("samples", words, "possible")


CONDITION = Condition(
    code="KF114",
    name="limit-unknown-to-user",
    title="the limit was far below what the machine shows",
    root="limit_unknown_to_user",
    because=because,
    remedies=(Remedy("see the limit that binds", "keepfit doctor"),),
)
