"""The relay: bytes from the command to the user, untouched, with the last 256 KiB kept on the way.

It blocks on nobody: a slow reader slows the command down, as it would without us, but never the front.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable

from ..blackbox.tail import TailWriter

CHUNK = 1 << 16
# A pipe that polls as writable takes at least PIPE_BUF bytes without blocking.
ATOMIC = select.PIPE_BUF
HELD = 1 << 20  # at most this much is held back before the source is left waiting


class Channel:
    """One direction: a source descriptor, a sink descriptor, and perhaps a tail."""

    def __init__(self, source: int, sink: int, tail: TailWriter | None = None) -> None:
        self.source = source
        self.sink = sink
        self._tail = tail
        self._queue: deque[bytes] = deque()
        self._held = 0
        self.open = True
        self.broken = False
        self.on_broken: Callable[[int, OSError], None] | None = None
        self.before: Callable[[bytes], bytes] | None = None  # sees what was read, may keep some of it

    @property
    def wants_read(self) -> bool:
        return self.open and not self.broken and self._held < HELD

    @property
    def wants_write(self) -> bool:
        return self._held > 0 and not self.broken

    @property
    def finished(self) -> bool:
        return (not self.open and not self._held) or self.broken

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
        head, rest = data[:ATOMIC], data[ATOMIC:]
        try:
            count = os.write(self.sink, head)
        except BlockingIOError:
            count = 0
        except OSError as error:  # the reader is gone: let the command learn it as it would without us
            self.broken = True
            self._held = 0
            self._queue.clear()
            os.close(self.source)
            if self.on_broken is not None:
                self.on_broken(self.source, error)
            return
        rest = head[count:] + rest
        if rest:
            self._queue.appendleft(rest)
        self._held -= count


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
