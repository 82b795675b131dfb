"""The ring: one pre-allocated file with three lanes, which stays readable whatever kills its writer.

Blocks are reserved in advance (`posix_fallocate`) and records are written with `pwrite`, never through
a mapping: a full disk or a truncated file is an error to be counted, not a SIGBUS.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter

from ..facts import Beat, Sample
from ..quick import dataclass
from . import wire
from .folder import Folder
from .rundir import RING
from .wire import Lane

_HEADER = struct.Struct("<8sHH")  # magic, version, number of lanes
_LANE = struct.Struct("<QII")  # offset, record size, count
HEADER_SIZE = 4096

_SAMPLE_FIELDS = "HIcQQQQQQdQQQQIQQQfff"
FAST = Lane("fast", HEADER_SIZE, 4096, _SAMPLE_FIELDS)  # 20 a second: the last 3.4 minutes
SLOW = Lane("slow", FAST.end, 4096, _SAMPLE_FIELDS)  # one in ten seconds: the last 11 hours
BEATS = Lane("beats", SLOW.end, wire.PULSE_BEATS.count, wire.BEAT_FIELDS)
LANES = (FAST, SLOW, BEATS)
SIZE = BEATS.end

_SAMPLE_NAMES = [f.name for f in fields(Sample)][1:]  # all but the time, which the head carries
_SAMPLE_VALUES = attrgetter(*_SAMPLE_NAMES)


class RingWriter:
    """Writes samples and beats; after a failed write it stays quiet and remembers why."""

    def __init__(self, folder: Folder) -> None:
        self._sequence = {"fast": 0, "slow": 0, "beats": 0}
        self.failure: str | None = None
        try:
            self._fd = folder.open_file(RING, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            self._fd = folder.open_file(RING, os.O_RDWR)
            self._go_on()
        else:
            self._lay_out(folder)

    def _go_on(self) -> None:
        """A later attempt of the same run writes behind what the earlier ones left."""
        content = os.pread(self._fd, SIZE, 0)
        for lane in LANES:
            records, _ = lane.scan(content)
            self._sequence[lane.name] = records[-1][0] if records else 0

    def _lay_out(self, folder: Folder) -> None:
        try:
            os.posix_fallocate(self._fd, 0, SIZE)
            head = _HEADER.pack(wire.MAGIC, wire.VERSION, len(LANES))
            table = b"".join(_LANE.pack(lane.offset, lane.size, lane.count) for lane in LANES)
            os.pwrite(self._fd, head + table, 0)
        except OSError:
            os.close(self._fd)
            folder.remove(RING)
            raise

    def _put(self, record: bytes, position: int) -> None:
        try:
            os.pwrite(self._fd, record, position)
        except OSError as error:
            self.failure = error.strerror

    def sample(self, sample: Sample, lane: Lane = FAST) -> None:
        sequence = self._sequence[lane.name] = self._sequence[lane.name] + 1
        processes, threads, state, *rest = _SAMPLE_VALUES(sample)
        values = (processes, threads, state.encode()[:1] or b"?", *rest)
        self._put(lane.encode(sequence, sample.time, values), lane.position(sequence))

    def beat(self, beat: Beat) -> None:
        sequence = self._sequence["beats"] = self._sequence["beats"] + 1
        values = (
            beat.pid,
            wire.PHASES.index(beat.phase),
            wire.DOING.index(beat.doing),
            beat.epoch,
            beat.step,
            beat.steps,
            beat.batch_size,
            beat.loss,
            beat.slowest,
        )
        self._put(BEATS.encode(sequence, beat.time, values), BEATS.position(sequence))

    def close(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True)
class RingContent:
    samples: tuple[Sample, ...] = ()
    beats: tuple[Beat, ...] = ()
    lost: tuple[str, ...] = ()


def read(folder: Folder, name: str = RING) -> RingContent:
    """Everything readable in a ring, and in words what is not. Never raises for a damaged file."""
    try:
        content = folder.read(name, SIZE * 2)
    except FileNotFoundError:
        return RingContent(lost=("there is no ring: samples and heartbeats are missing",))
    except OSError as error:
        return RingContent(lost=(f"the ring cannot be read ({error.strerror})",))
    lost = []
    if len(content) < HEADER_SIZE:
        return RingContent(lost=(f"the ring is cut off ({len(content)} bytes): no samples, no heartbeats",))
    magic, version, _ = _HEADER.unpack_from(content)
    if magic != wire.MAGIC:
        lost.append("the ring's header is damaged; its records were read all the same")
    elif version > wire.VERSION:
        return RingContent(lost=(f"the ring has format {version}; this keepfit reads up to {wire.VERSION}",))
    if len(content) < SIZE:
        lost.append(f"the ring is cut off at {len(content)} of {SIZE} bytes")
    scanned = {lane.name: lane.scan(content) for lane in LANES}
    damaged = sum(count for _, count in scanned.values())
    if damaged:
        lost.append(f"{damaged} damaged record{'s' * (damaged > 1)} in the ring skipped")
    fast = [_sample(t, values) for _, t, values in scanned["fast"][0]]
    slow = [_sample(t, values) for _, t, values in scanned["slow"][0]]
    if fast:  # the slow lane reaches further back; where both speak the fast one is finer
        slow = [sample for sample in slow if sample.time < fast[0].time]
    beats = [beat(t, values) for _, t, values in scanned["beats"][0]]
    return RingContent(tuple(slow + fast), tuple(beats), tuple(lost))


def _sample(time: float, values: Sequence[object]) -> Sample:
    # A number that is none (the checksum may be right all the same) is as good as not there.
    finite = (value if not isinstance(value, float) or math.isfinite(value) else 0.0 for value in values)
    named = dict(zip(_SAMPLE_NAMES, finite, strict=True))
    state = named["state"]
    named["state"] = state.decode("ascii", "replace") if isinstance(state, bytes) else "?"
    return Sample(time=time, **named)  # type: ignore[arg-type]


def beat(time: float, values: Sequence[int | float]) -> Beat:
    pid, phase, doing, epoch, step, steps, batch_size, loss, slowest = values
    return Beat(
        time=time,
        pid=int(pid),
        phase=word(wire.PHASES, int(phase)),
        doing=word(wire.DOING, int(doing)),
        epoch=int(epoch),
        step=int(step),
        steps=int(steps),
        batch_size=int(batch_size),
        loss=loss,
        slowest=slowest,
    )


def word(words: Sequence[str], index: int) -> str:
    return words[index] if index < len(words) else "?"
