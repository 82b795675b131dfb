"""The binary shapes both processes agree on. Standard library only: the agent imports this too.

A lane is a circle of fixed-size records. Every record carries its sequence number, its time and a
checksum, so that a reader finds the order without a head pointer and skips what was torn.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from math import isfinite
from typing import Any

VERSION = 1  # of what is written to disk
PULSE_VERSION = 2
MAGIC = b"KEEPFIT\x00"

# What the agent may say of itself; the position is the byte on the wire, so only append.
PHASES = ("start", "import", "data", "build", "trace", "train", "validation", "predict", "checkpoint", "end")
DOING = ("stepping", "filling", "callback", "saving", "between", "looping")

_HEAD = "<Qd"  # sequence (from 1), CLOCK_MONOTONIC time
SEQUENCE = struct.Struct("<Q")  # what every record begins with
_CRC = struct.Struct("<I")


class Lane:
    """The geometry of one lane inside a buffer or file."""

    def __init__(self, name: str, offset: int, count: int, fields: str) -> None:
        self.name = name
        self.offset = offset
        self.count = count
        self.inner = struct.Struct(_HEAD + fields)  # all but the checksum
        self.size = self.inner.size + _CRC.size

    @property
    def end(self) -> int:
        return self.offset + self.size * self.count

    def position(self, sequence: int) -> int:
        return self.offset + (sequence % self.count) * self.size

    def encode(self, sequence: int, time: float, values: Sequence[Any]) -> bytes:
        record = self.inner.pack(sequence, time, *values)
        return record + _CRC.pack(zlib.crc32(record))

    def decode(self, record: bytes) -> tuple[int, float, tuple[Any, ...]] | None:
        """(sequence, time, values), or None for a record that is torn, damaged or was never written."""
        if len(record) != self.size:
            return None
        inner = record[: -_CRC.size]
        (crc,) = _CRC.unpack_from(record, len(inner))
        if crc != zlib.crc32(inner):
            return None
        sequence, time, *values = self.inner.unpack(inner)
        return (sequence, time, tuple(values)) if sequence else None

    def scan(self, buffer: Any) -> tuple[list[tuple[int, float, tuple[Any, ...]]], int]:
        """All records of this lane that are whole, oldest first, and how many were damaged."""
        found = []
        damaged = 0
        blank = bytes(self.size)
        for index in range(self.count):
            start = self.offset + index * self.size
            record = bytes(buffer[start : start + self.size])
            if record == blank[: len(record)]:
                continue
            decoded = self.decode(record)
            if decoded is None or decoded[0] % self.count != index or not isfinite(decoded[1]):
                damaged += 1
            else:
                found.append(decoded)
        found.sort(key=lambda record: record[0])
        return found, damaged


# --- the pulse: sealed memory the agent writes and the supervisor drains ---------------------------
# magic, version, two live bytes (what it is doing, and the phase), the live words, then the lane of beats.

PULSE_HEAD = struct.Struct("<8sHBB")
PULSE_DOING = 10
PULSE_PHASE = 11
# The live words: the step in progress and when it began. Steps may come by the thousand a second, and code that
# runs once a step runs from a cold cache; so a step costs one store here, and beats are for what is rarer.
PULSE_LIVE = struct.Struct("=qd")  # native: stored eight bytes at a time
PULSE_LIVE_AT = 16
BEAT_FIELDS = "IBBiqqidd"  # pid, phase, doing, epoch, step, steps, batch size, loss, slowest step
# Which process tells: its pid, and when it was started (0: nobody does yet).
PULSE_OWNER = struct.Struct("=QQ")
PULSE_OWNER_AT = 64
PULSE_BEATS = Lane("beats", 128, 2048, BEAT_FIELDS)
# Words of the supervisor to the agent: the memory the run may have (0: not known), and the micro-batch wanted now.
PULSE_ORDERS = struct.Struct("=qq")
PULSE_ORDERS_AT = 32
# How often a state was wanted at once (by the supervisor), and how often one was then saved (by the agent).
PULSE_WANTED = struct.Struct("=q")
PULSE_WANTED_AT, PULSE_SAVED_AT = 48, 56


class Letterbox:
    """Room for one letter (a JSON object) in shared memory, written by one side and read by the other.

    The sequence number is stored last: a reader that sees a new one with the right checksum has the whole
    letter. A new letter replaces the old one, so the sides take turns.
    """

    _HEAD = struct.Struct("<QII")  # sequence, length, checksum

    def __init__(self, offset: int, size: int) -> None:
        self.offset = offset
        self.end = offset + size
        self._room = size - self._HEAD.size

    def post(self, memory: Any, sequence: int, letter: dict[str, Any]) -> bool:
        """False where the letter is too long."""
        text = json.dumps(letter).encode()
        if len(text) > self._room:
            return False
        start = self.offset + self._HEAD.size
        memory[start : start + len(text)] = text
        memory[self.offset : start] = self._HEAD.pack(sequence, len(text), zlib.crc32(text))
        return True

    def sequence(self, memory: Any) -> int:
        """The number of the letter that lies there, without opening it."""
        number: int = self._HEAD.unpack_from(memory, self.offset)[0]
        return number

    def read(self, memory: Any) -> tuple[int, dict[str, Any]] | None:
        """(sequence, letter), or None where there is none, or a torn one."""
        sequence, length, crc = self._HEAD.unpack_from(memory, self.offset)
        start = self.offset + self._HEAD.size
        if not sequence or length > self._room:
            return None
        text = bytes(memory[start : start + length])
        if zlib.crc32(text) != crc:
            return None
        letter = json.loads(text)
        return (sequence, letter) if isinstance(letter, dict) else None


PULSE_QUESTION = Letterbox(PULSE_BEATS.end, 16384)  # agent to supervisor
PULSE_ANSWER = Letterbox(PULSE_QUESTION.end, 4096)  # and back
PULSE_SIZE = (PULSE_ANSWER.end + 4095) // 4096 * 4096
