"""What is said while a planned script is on its way to its training call: what is waited for, how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Collection

FIRST, AGAIN = 5.0, 60.0  # seconds: most scripts need no word before the first, and a slow one need not be told often
GLANCE = 1.0  # seconds between two looks
# What it does, by the agent's phases.
DOING = {
    "start": "starting",
    "import": "importing a framework",
    "data": "preparing its data or its model",
    "build": "building its model",
    "trace": "tracing a graph",
    "train": "in a loop of its own",
    "validation": "evaluating a model",
    "predict": "predicting with a model",
    "checkpoint": "saving a model",
}


class Waiting:
    """Says it after a few seconds, again when the training call has come, and rarely after that."""

    def __init__(self, say: Callable[[str], None], seconds: float) -> None:
        """It may take so many `seconds` to come there."""
        self._say, self._seconds = say, seconds
        self._look, self._due = FIRST, FIRST
        self._called = False

    def is_due(self, passed: float) -> bool:
        """Whether it is time to see how far it has come."""
        return passed >= self._look

    def look(self, passed: float, pid: int, phase: str, events: Collection[str]) -> None:
        """So many seconds after it began, by the names of the events in its journal."""
        self._look = passed + GLANCE
        called = "fitting" in events
        if passed < self._due and called is self._called:
            return
        self._due, self._called = passed + AGAIN, called
        self._say(line(pid, doing(phase, events), called, self._seconds))


def doing(phase: str, events: Collection[str]) -> str:
    """How far a script has come that has not made its training call."""
    if "agent" not in events:
        return "not seen yet: keepfit's agent is in no Python process of it"
    return DOING.get(phase, phase)


def line(pid: int, doing: str, called: bool, seconds: float) -> str:
    """`called`: its training call was made, and its first step is not ready to be looked at."""
    ends = f"PID {pid}; at most {seconds:g} s (--timeout), Ctrl-C ends it"
    if called:
        return f"the script has come to its training call: its first batch is read and its step is traced, {ends}"
    return (
        f"waiting for the script to come to its training call (model.fit or a loop of its own); it is {doing}, {ends}"
    )
