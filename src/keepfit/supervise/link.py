"""Words between front and judge: one JSON object a packet, never blocking."""

from __future__ import annotations

import json
import socket
from typing import Any


class Link:
    """One end. A peer that is gone reads as `closed`; sending to it does nothing."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(False)
        self.closed = False

    @classmethod
    def pair(cls) -> tuple[Link, Link]:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (a, b):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        return cls(a), cls(b)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, **message: Any) -> None:
        try:
            self._socket.send(json.dumps(message).encode())
        except OSError:
            self.closed = True

    def receive(self) -> dict[str, Any] | None:
        """The next message, or None when there is none now (look at `closed` for the difference)."""
        try:
            packet = self._socket.recv(1 << 20)
        except BlockingIOError:
            return None
        except OSError:
            packet = b""
        if not packet:
            self.closed = True
            return None
        message = json.loads(packet)
        return message if isinstance(message, dict) else None

    def close(self) -> None:
        self._socket.close()
        self.closed = True
