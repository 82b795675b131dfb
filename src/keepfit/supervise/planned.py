"""A restart before death: memory that goes on climbing is given back by a new process, at a saved state."""

from __future__ import annotations

from collections.abc import Callable

from ..blackbox.pulse import Pulse
from ..blackbox.rundir import RunDirectory
from ..facts import Danger
from . import records

STATE_WAIT = 10.0  # seconds; after that it is worth it only for a smaller micro-batch


class PlannedRestart:
    """It waits for the state it is to go on from."""

    def __init__(self, pulse: Pulse, run: RunDirectory) -> None:
        self._pulse = pulse
        self._run = run
        self._before = self._newest()
        self._danger: Danger | None = None
        self._until = 0.0

    def look(self, now: float, found: Danger | None, shrinks: Callable[[], bool]) -> Danger | None:
        """The danger that was found, once it can be escaped. `shrinks`: a smaller micro-batch is left to try."""
        if self._danger is None and found is not None:
            self._danger, self._until = found, now + STATE_WAIT
            self._pulse.want_state()
        if self._danger is None:
            return None
        return self._danger if self.is_saved or (now >= self._until and shrinks()) else None

    @property
    def is_saved(self) -> bool:
        """Whether the next attempt has more to go on from than this one had."""
        return self._danger is not None and self._pulse.state_is_saved and self._newest() > self._before

    def _newest(self) -> int:
        found = records.newest(self._run)
        return found.number if found else 0
