"""The last 256 KiB of what the command printed, kept in a circle that survives everything but the disk."""

from __future__ import annotations

import contextlib
import os
import struct

from . import wire
from .folder import Folder

CAPACITY = 256 * 1024
_HEADER = struct.Struct("<8sHQ")  # magic, version, bytes written in all
HEADER_SIZE = 64


class TailWriter:
    """Appends bytes to a circular file. A failing disk silences it; the output itself goes on."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._written = 0
        self.failure: str | None = None
        self._fd = folder.open_file(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            os.posix_fallocate(self._fd, 0, HEADER_SIZE + CAPACITY)
            os.pwrite(self._fd, _HEADER.pack(wire.MAGIC, wire.VERSION, 0), 0)
        except OSError as error:
            self.failure = error.strerror

    def catch_up(self) -> None:
        """Go on where another process has written to."""
        with contextlib.suppress(OSError, struct.error):
            _, _, self._written = _HEADER.unpack(os.pread(self._fd, _HEADER.size, 0))

    def write(self, data: bytes) -> None:
        if self.failure:
            return
        self._written += len(data)
        data = data[-CAPACITY:]
        start = (self._written - len(data)) % CAPACITY
        first = data[: CAPACITY - start]
        # The text first, the count last: a reader between the two sees the old end, never garbage.
        self._put(first, HEADER_SIZE + start)
        if len(first) < len(data):
            self._put(data[len(first) :], HEADER_SIZE)
        self._put(_HEADER.pack(wire.MAGIC, wire.VERSION, self._written), 0)

    def skip(self, count: int) -> None:
        """So many bytes have come before what comes next, and would be overwritten by it."""
        self._written += count

    def take(self, pipe: int, count: int) -> None:
        """The next `count` bytes of a pipe, not more than fit, without their being copied through our hands."""
        start = self._written % CAPACITY
        self._written += count
        while count:
            piece = min(count, CAPACITY - start)
            try:
                done = os.splice(pipe, self._fd, piece, offset_dst=HEADER_SIZE + start) if not self.failure else 0
            except OSError:
                done = 0
            if not done:  # a full disk, or a file system that cannot: it has to be taken out of the pipe all the same
                data = os.read(pipe, piece)
                done = len(data)
                self._put(data, HEADER_SIZE + start)
            start = (start + done) % CAPACITY
            count -= done
        self._put(_HEADER.pack(wire.MAGIC, wire.VERSION, self._written), 0)

    def _put(self, data: bytes, position: int) -> None:
        if self.failure:
            return
        try:
            os.pwrite(self._fd, data, position)
        except OSError as error:
            self.failure = error.strerror

    def close(self) -> None:
        os.close(self._fd)


def read(folder: Folder, name: str) -> bytes:
    """The kept output, oldest byte first; empty when there is none or it is beyond reading."""
    try:
        content = folder.read(name, HEADER_SIZE + CAPACITY)
    except OSError:
        return b""
    if len(content) < HEADER_SIZE:
        return b""
    magic, version, written = _HEADER.unpack_from(content)
    body = content[HEADER_SIZE:]
    if magic != wire.MAGIC or version > wire.VERSION:
        return b""
    if written <= CAPACITY:
        return body[:written]
    cut = written % CAPACITY
    return body[cut:] + body[:cut]


def text(folder: Folder, name: str) -> str:
    """The kept output as text: bad bytes replaced, progress bars (carriage returns) as lines."""
    return read(folder, name).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
