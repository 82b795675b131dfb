"""A real terminal for tests: keepfit runs as the leader of a pseudo-terminal session."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Mapping, Sequence

from ..stage import KEEPFIT, PATIENCE


class Terminal:
    """keepfit in a terminal of its own; everything it shows is in `screen`."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], rows: int = 24, columns: int = 80) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            self._size(0, rows, columns)
            os.execve(KEEPFIT[0], [*KEEPFIT, *words], dict(environment))
        self.screen = b""

    @staticmethod
    def _size(fd: int, rows: int, columns: int) -> None:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows: int, columns: int) -> None:
        self._size(self.fd, rows, columns)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def wait_for(self, word: bytes, seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while word not in self.screen:
            left = deadline - time.monotonic()
            assert left > 0, f"{word!r} did not appear within {seconds} s: {self.screen[-1500:]!r}"
            if not self._read(left):
                raise AssertionError(f"the terminal closed before {word!r} appeared: {self.screen[-1500:]!r}")

    def _read(self, seconds: float) -> bool:
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                chunk = os.read(self.fd, 65536)
            except OSError:
                return False
            self.screen += chunk
            return bool(chunk)
        return True

    def until_closed(self, seconds: float = PATIENCE) -> bytes:
        """Everything until nobody holds the terminal any more."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self._read(0.5):
                return self.screen
        raise AssertionError(f"the terminal is still held: {self.screen[-500:]!r}")

    def status(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


class Shell(Terminal):
    """A shell in a terminal, which keeps job control while keepfit runs under it."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(words[0], [*words], dict(environment))
        self.screen = b""
