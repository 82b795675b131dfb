"""A callback keeps something that a resumed training will not have.

## What happened
A callback of the script's own has attributes (a counter, a best value, a list). keepfit saves what Keras' own
callbacks remember; of others it knows nothing, so after a resume this one begins as it does at the start.

## How keepfit knows
The callback's class is not Keras', it has attributes of its own, and no `get_state` and `set_state`.

## What to do
Give it two methods: `get_state(self)` returns plain data (numbers, strings, lists, dictionaries, arrays), and
`set_state(self, state)` takes it back. If what it keeps does not matter after a restart, do nothing.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "checkpoint-callbacks":
        return None
    names = ", ".join(str(name) for name in report["names"])
    return f"after a resume {names} would begin anew: get_state and set_state would let it go on"


CONDITION = Condition(
    code="KF701",
    name="forgetful-callback",
    title="a callback's own state is not saved",
    severity="note",
    watch=watch,
    remedies=(Remedy("give it get_state and set_state", "they return and take back plain data"),),
)
