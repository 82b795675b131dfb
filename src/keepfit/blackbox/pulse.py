"""The pulse: a little sealed memory in which the agent says where the training is.

It is a memfd whose size is sealed, so nobody can truncate it under the trainee, and writing to it is no
system call and touches no disk. The supervisor drains it into the ring.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Any

from . import ring, wire
from .wire import PULSE_BEATS


class Pulse:
    """The supervisor's end: made once a run, drained a few times a second."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("keepfit-pulse", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(self.fd, 0, wire.PULSE_SIZE)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._memory = mmap.mmap(self.fd, wire.PULSE_SIZE)
        self._memory[: wire.PULSE_HEAD.size] = wire.PULSE_HEAD.pack(wire.MAGIC, wire.PULSE_VERSION, 0, 0)
        self._seen = 0
        self._asked = 0

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)

    @property
    def address(self) -> str:
        """Where any descendant of this process can open it, whatever closed the descriptors between."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    @property
    def doing(self) -> str:
        return ring.word(wire.DOING, self._memory[wire.PULSE_DOING])

    @property
    def phase(self) -> str:
        return ring.word(wire.PHASES, self._memory[wire.PULSE_PHASE])

    @property
    def live(self) -> tuple[int, float]:
        """(the step in progress, when it began)."""
        step, began = wire.PULSE_LIVE.unpack_from(self._memory, wire.PULSE_LIVE_AT)
        return step, began

    def order(self, limit: int, rows: int = 0) -> None:
        """Tell the agent the memory the run may have, and the micro-batch wanted from now on (0: as it is)."""
        wire.PULSE_ORDERS.pack_into(self._memory, wire.PULSE_ORDERS_AT, limit, rows)

    def want_state(self) -> None:
        """The agent is to save a state at the next boundary between two steps."""
        count = wire.PULSE_WANTED.unpack_from(self._memory, wire.PULSE_WANTED_AT)[0]
        wire.PULSE_WANTED.pack_into(self._memory, wire.PULSE_WANTED_AT, count + 1)

    @property
    def state_is_saved(self) -> bool:
        """Whether it has."""
        wanted = wire.PULSE_WANTED.unpack_from(self._memory, wire.PULSE_WANTED_AT)
        return bool(wire.PULSE_WANTED.unpack_from(self._memory, wire.PULSE_SAVED_AT) >= wanted)

    @property
    def is_asked(self) -> bool:
        """Whether a question of the agent's lies there that was not seen yet."""
        return wire.PULSE_QUESTION.sequence(self._memory) != self._asked

    def question(self) -> dict[str, Any] | None:
        if not self.is_asked:
            return None
        found = wire.PULSE_QUESTION.read(self._memory)
        if found is None or found[0] == self._asked:
            return None
        self._asked = found[0]
        return found[1]

    def answer(self, **letter: Any) -> None:
        wire.PULSE_ANSWER.post(self._memory, self._asked, letter)

    def new_records(self) -> list[tuple[int, bytes]]:
        """Records written since the last call, raw, oldest first."""
        found: list[tuple[int, bytes]] = []
        while True:
            sequence = self._seen + 1
            position = PULSE_BEATS.position(sequence)
            if wire.SEQUENCE.unpack_from(self._memory, position)[0] < sequence:
                return found  # what lies there was seen a circle ago
            record = self._record(position)
            decoded = PULSE_BEATS.decode(record)
            if decoded is None or decoded[0] < sequence:
                return found
            if decoded[0] > sequence:  # the agent is a whole circle ahead of us
                return found + self._all_after(self._seen)
            found.append((sequence, record))
            self._seen = sequence

    def _record(self, position: int) -> bytes:
        return self._memory[position : position + PULSE_BEATS.size]

    def _all_after(self, seen: int) -> list[tuple[int, bytes]]:
        found = []
        for index in range(PULSE_BEATS.count):
            record = self._record(PULSE_BEATS.position(index))
            decoded = PULSE_BEATS.decode(record)
            if decoded is not None and decoded[0] > seen:
                found.append((decoded[0], record))
        found.sort()
        self._seen = found[-1][0] if found else seen
        return found
