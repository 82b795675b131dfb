"""Asking the supervisor, which knows the limit and the rules: one question at a time, through the pulse."""

from __future__ import annotations

import os
import time
from typing import Any

from ..blackbox import wire

PATIENCE = 5.0  # seconds; a supervisor that says nothing for so long is gone, or too busy to be relied on
GLANCE = 0.002


class Counsel:
    """The agent's end. Whatever is wrong, `ask` returns None and the training goes on as it would alone."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        # A run may have several processes, one after the other: each goes on counting where the last one stopped.
        last = wire.PULSE_QUESTION.read(memory) if memory else None
        self._sequence = last[0] if last else 0

    @property
    def limit(self) -> int:
        """Bytes the run may have; 0 where that is not known, or nobody guards it."""
        limit: int = wire.PULSE_ORDERS.unpack_from(self._memory, wire.PULSE_ORDERS_AT)[0] if self._memory else 0
        return limit

    @property
    def wish(self) -> int:
        """The micro-batch the supervisor wants from now on; 0: as it is."""
        rows: int = wire.PULSE_ORDERS.unpack_from(self._memory, wire.PULSE_ORDERS_AT)[1] if self._memory else 0
        return rows

    def wants_state(self) -> bool:
        """Whether the supervisor waits for a state to be saved."""
        return bool(self._memory) and self._word(wire.PULSE_WANTED_AT) > self._word(wire.PULSE_SAVED_AT)

    def state_is_saved(self) -> None:
        if self._memory:
            wire.PULSE_WANTED.pack_into(self._memory, wire.PULSE_SAVED_AT, self._word(wire.PULSE_WANTED_AT))

    def _word(self, where: int) -> int:
        value: int = wire.PULSE_WANTED.unpack_from(self._memory, where)[0]
        return value

    def ask(self, what: str, **facts: Any) -> dict[str, Any] | None:
        if not self._memory:
            return None
        self._sequence += 1
        if not wire.PULSE_QUESTION.post(self._memory, self._sequence, {"ask": what, "pid": os.getpid(), **facts}):
            return None
        deadline = time.monotonic() + PATIENCE
        while True:
            late = time.monotonic() >= deadline  # looked at before the answer: we may have been stopped meanwhile
            found = wire.PULSE_ANSWER.read(self._memory)
            if found is not None and found[0] == self._sequence:
                return found[1]
            if late:
                break
            time.sleep(GLANCE)
        self._memory = None  # not worth waiting for a second time
        return None
