"""The last 256 KiB of what the command printed, kept in a circle that survives everything but the disk."""

from __future__ import annotations

import os
import struct

from . import wire

CAPACITY = 256 * 1024
_HEADER = struct.Struct("<8sHQ")  # magic, version, bytes written in all
HEADER_SIZE = 64


class TailWriter:
    """Appends bytes to a circular file. A failing disk silences it; the output itself goes on."""

    def __init__(self, path: str) -> None:
        self._written = 0
        self.failure: str | None = None
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(self._fd, 0, HEADER_SIZE + CAPACITY)
            os.pwrite(self._fd, _HEADER.pack(wire.MAGIC, wire.VERSION, 0), 0)
        except OSError as error:
            self.failure = error.strerror

    def write(self, data: bytes) -> None:
        if self.failure:
            return
        self._written += len(data)
        data = data[-CAPACITY:]
        start = (self._written - len(data)) % CAPACITY
        first = data[: CAPACITY - start]
        try:
            # The text first, the count last: a reader between the two sees the old end, never garbage.
            os.pwrite(self._fd, first, HEADER_SIZE + start)
            if len(first) < len(data):
                os.pwrite(self._fd, data[len(first) :], HEADER_SIZE)
            os.pwrite(self._fd, _HEADER.pack(wire.MAGIC, wire.VERSION, self._written), 0)
        except OSError as error:
            self.failure = error.strerror

    def close(self) -> None:
        os.close(self._fd)


def read(path: str) -> bytes:
    """The kept output, oldest byte first; empty when there is none or it is beyond reading."""
    try:
        with open(path, "rb") as file:
            content = file.read(HEADER_SIZE + CAPACITY)
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


def text(path: str) -> str:
    """The kept output as text: bad bytes replaced, progress bars (carriage returns) as lines."""
    return read(path).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
