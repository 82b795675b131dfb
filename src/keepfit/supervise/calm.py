"""Calm: while nothing moves, a look is only written down, and thought about five times a second.

A look costs the training what it costs us: both cores work for one step, and a step waits for the later of them.
"""

from __future__ import annotations

from ..blackbox.pulse import Pulse
from .danger import NEAR

REST = 0.2  # seconds
STIR = 0.01  # of the limit: use that has moved by more is no calm


class Calm:
    def __init__(self, limit: int | None, pulse: Pulse | None) -> None:
        self._limit = limit
        self._pulse = pulse
        self._until = 0.0
        self._use = 0

    def is_over(self, now: float, use: int) -> bool:
        """Whether it is time to think; it then begins anew."""
        if self._limit is not None and now < self._until and use < NEAR * self._limit:
            is_asked = self._pulse is not None and self._pulse.is_asked
            if abs(use - self._use) < STIR * self._limit and not is_asked:
                return False
        self._until, self._use = now + REST, use
        return True
