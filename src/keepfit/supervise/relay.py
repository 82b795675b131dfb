"""The relay: bytes from the command to the user, untouched, with the last 256 KiB kept on the way.

It blocks on nobody: a slow reader slows the command down, as it would without us, but never the front. From pipe to
pipe the kernel moves the pages themselves, and only what the record keeps is ever copied.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ..blackbox.tail import CAPACITY, TailWriter

CHUNK = 1 << 16
# A pipe that polls as writable takes at least PIPE_BUF bytes without blocking.
ATOMIC = select.PIPE_BUF
HELD = 1 << 20  # at most this much is held back before the source is left waiting
ROOMY = 1 << 20  # bytes that a pipe of ours holds, where the system allows it
SHORTEST, LONGEST = 0.0001, 0.001  # seconds in which a program that writes on and on writes its next piece
STRETCH = 0.02  # seconds of that before anything else is looked after

_SET_SIZE = 1031  # F_SETPIPE_SZ
_MOVE = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK


def make_roomy(pipe: int) -> int:
    """A pipe that holds as much as it may; returns how much that is."""
    with contextlib.suppress(OSError):
        return int(fcntl.fcntl(pipe, _SET_SIZE, ROOMY))
    return CHUNK


class Channel:
    """One direction: a source descriptor, a sink descriptor, and perhaps a tail."""

    def __init__(self, source: int, sink: int, tail: TailWriter | None = None) -> None:
        self.source = source
        self.sink = sink
        self._tail = tail
        self.open = True
        self.broken = False
        self.on_broken: Callable[[int, OSError], None] | None = None

    @property
    def held(self) -> int:
        """Bytes that were read, or are known to be there, and that the sink has not got yet."""
        raise NotImplementedError

    @property
    def wants_read(self) -> bool:
        return self.open and not self.broken and self.held < HELD

    @property
    def wants_write(self) -> bool:
        return self.held > 0 and not self.broken

    @property
    def finished(self) -> bool:
        return (not self.open and not self.held) or self.broken

    def read(self) -> None:
        raise NotImplementedError

    def write(self) -> None:
        raise NotImplementedError

    def _break(self, error: OSError) -> None:
        """The reader is gone: let the command learn it as it would without us."""
        self.broken = True
        os.close(self.source)
        if self.on_broken is not None:
            self.on_broken(self.source, error)


class Copying(Channel):
    """Between any two descriptors, through our hands."""

    def __init__(self, source: int, sink: int, tail: TailWriter | None = None) -> None:
        super().__init__(source, sink, tail)
        self._queue: deque[bytes] = deque()
        self._held = 0
        # A file takes all it is given at once; whoever else may not have room for more.
        self._most = CHUNK if _is_file(sink) else ATOMIC
        self.before: Callable[[bytes], bytes] | None = None  # sees what was read, may keep some of it

    @property
    def held(self) -> int:
        return self._held

    def read(self) -> None:
        try:
            data = os.read(self.source, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # EIO: the last holder of a pseudo-terminal is gone
            data = b""
        if not data:
            self.open = False
            return
        if self.before is not None:
            data = self.before(data)
        # Into the record first: what the user has seen, the record has.
        if self._tail is not None:
            self._tail.write(data)
        self._queue.append(data)
        self._held += len(data)

    def write(self) -> None:
        data = self._queue.popleft()
        head, rest = data[: self._most], data[self._most :]
        try:
            count = os.write(self.sink, head)
        except BlockingIOError:
            count = 0
        except OSError as error:
            self._held = 0
            self._queue.clear()
            self._break(error)
            return
        rest = head[count:] + rest
        if rest:
            self._queue.appendleft(rest)
        self._held -= count


class Moving(Channel):
    """From a pipe to a pipe. What comes is first doubled (`tee`) for the record, then moved on (`splice`)."""

    def __init__(self, source: int, sink: int, tail: TailWriter | None) -> None:
        super().__init__(source, sink, tail)
        self._ahead = 0  # bytes in the source that were doubled already
        self._double = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._room = min(make_roomy(self._double[1]), ROOMY)
        self._kept = 0  # bytes of the double that the record has not got yet
        self._nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        self._widened = False

    @property
    def held(self) -> int:
        return self._ahead

    @property
    def wants_read(self) -> bool:
        return self.open and not self.broken and not self._ahead

    def read(self) -> None:
        """What is there. Where more comes at once it is awaited for a moment each time: fewer and larger turns."""
        nap, until = SHORTEST, time.monotonic() + STRETCH
        there = self._double_on()
        self._record()  # before anybody sees it
        while there:
            if there > CHUNK and not self._widened:
                self._widened = True
                make_roomy(self.sink)
            self.write()
            if self._ahead or self.broken or time.monotonic() > until:
                break  # the reader is not as fast; or others have waited long enough
            time.sleep(nap)
            nap = max(SHORTEST, nap / 2) if there > ROOMY // 2 else min(LONGEST, nap * 2)
            there = self._double_on()
        self._record()

    def _double_on(self) -> int:
        """How much the source holds; that is doubled now."""
        if self._kept > self._room // 2:  # a system that allows small pipes only
            self._record()
        try:
            there = _tee(self.source, self._double[1], self._room - self._kept)
        except BlockingIOError:
            return 0
        if not there:
            self.open = False
            return 0
        self._ahead = there
        self._kept += there
        if self._tail is None or self._kept > CAPACITY:  # what would be pushed out of the circle at once
            self._drop(self._kept if self._tail is None else self._kept - CAPACITY)
        return int(there)

    def _drop(self, count: int) -> None:
        self._kept -= count
        if self._tail is not None:
            self._tail.skip(count)
        while count:
            count -= os.splice(self._double[0], self._nowhere, count, flags=_MOVE)

    def _record(self) -> None:
        if self._kept and self._tail is not None:
            self._tail.take(self._double[0], self._kept)
            self._kept = 0

    def write(self) -> None:
        try:
            self._ahead -= os.splice(self.source, self.sink, self._ahead, flags=_MOVE)
        except BlockingIOError:
            return
        except OSError as error:
            self._ahead = 0
            self._break(error)


def channel(source: int, sink: int, tail: TailWriter | None = None) -> Channel:
    """The best way between these two."""
    if _is_pipe(source) and _is_pipe(sink) and _tee is not None:
        with contextlib.suppress(OSError):
            return Moving(source, sink, tail)
    return Copying(source, sink, tail)


def _is_pipe(fd: int) -> bool:
    return stat.S_ISFIFO(os.fstat(fd).st_mode)


def _is_file(fd: int) -> bool:
    known = os.fstat(fd)
    return stat.S_ISREG(known.st_mode) or (stat.S_ISCHR(known.st_mode) and known.st_rdev == os.makedev(1, 3))


def _find_tee() -> Any:
    """`tee(2)`, which Python does not have; None where the C library has not either."""
    try:
        call = ctypes.CDLL(None, use_errno=True).tee
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint)
    call.restype = ctypes.c_ssize_t

    def tee(source: int, sink: int, count: int) -> int:
        done = int(call(source, sink, count, os.SPLICE_F_NONBLOCK))
        if done < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return done

    return tee


_tee = _find_tee()


class Relay:
    """A few channels pumped together."""

    def __init__(self, channels: list[Channel]) -> None:
        self.channels = channels

    @property
    def finished(self) -> bool:
        return all(channel.finished for channel in self.channels)

    def register(self, poll: Poller) -> None:
        for channel in self.channels:
            if channel.wants_read:
                poll.want(channel.source, select.POLLIN)
            if channel.wants_write:
                poll.want(channel.sink, select.POLLOUT)

    def pump(self, ready: dict[int, int]) -> None:
        for channel in self.channels:
            if ready.get(channel.sink, 0) and channel.wants_write:
                channel.write()
            if channel.wants_read and ready.get(channel.source, 0):
                channel.read()

    def drain(self, seconds: float) -> None:
        """Carry what is already there, until nothing comes or the time is up."""
        deadline = time.monotonic() + seconds
        while not self.finished and time.monotonic() < deadline:
            poll = Poller()
            self.register(poll)
            ready = poll.wait(0.0)
            if not ready and not any(channel.wants_write for channel in self.channels):
                return
            if not ready:
                ready = poll.wait(0.02)
            self.pump(ready)


class Poller:
    """`poll(2)` with the interests of one turn."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def want(self, fd: int, events: int) -> None:
        self._wanted[fd] = self._wanted.get(fd, 0) | events

    def wait(self, seconds: float) -> dict[int, int]:
        poll = select.poll()
        for fd, events in self._wanted.items():
            poll.register(fd, events)
        return dict(poll.poll(max(0.0, seconds * 1000)))
