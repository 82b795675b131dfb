"""Terminals: a pseudo-terminal for the command when ours is one, raw mode while it runs, window size."""

from __future__ import annotations

import fcntl
import os
import termios
import tty
from signal import SIGINT, SIGQUIT, SIGTSTP


def is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def is_controlled() -> bool:
    """Whether this session has a terminal that types signals."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return False
    return True


def copy_window_size(source: int, target: int) -> None:
    try:
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)
    except OSError:
        return


def keys_of_signals(fd: int) -> dict[bytes, int]:
    """Which keys are signals in this terminal: Ctrl-C, Ctrl-\\ and Ctrl-Z, or none (an editor switches that off)."""
    try:
        modes = termios.tcgetattr(fd)
    except termios.error:
        return {}
    if not modes[3] & termios.ISIG:
        return {}
    pairs = ((termios.VINTR, SIGINT), (termios.VQUIT, SIGQUIT), (termios.VSUSP, SIGTSTP))
    return {modes[6][key]: int(number) for key, number in pairs if modes[6][key] != b"\0"}


def foreground(fd: int) -> int:
    """The process group in front of this terminal; 0 when it cannot be told."""
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return 0


def in_foreground(fd: int) -> bool:
    return foreground(fd) == os.getpgrp()


def open_pair(like: int) -> tuple[int, int]:
    """(master, slave) with the modes and size of an existing terminal."""
    master, slave = os.openpty()
    os.set_inheritable(master, False)
    os.set_inheritable(slave, False)
    try:
        termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(like))
    except termios.error:
        pass  # the defaults of a new terminal are fine
    copy_window_size(like, slave)
    return master, slave


class RawMode:
    """Our terminal in raw mode: every key goes to the command's own terminal, which makes signals of it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._saved: list[object] | None = None
        try:
            self._original: list[object] | None = termios.tcgetattr(fd)
        except termios.error:
            self._original = None

    @property
    def active(self) -> bool:
        return self._saved is not None

    def enter(self) -> None:
        if self._saved is None and in_foreground(self._fd):
            try:
                self._saved = termios.tcgetattr(self._fd)
                tty.setraw(self._fd, termios.TCSANOW)
            except termios.error:
                self._saved = None

    def restore(self) -> None:
        """As it was before we came, whoever left it raw: for the judge, when the front was killed."""
        self._saved = self._original
        self.leave()

    def leave(self) -> None:
        if self._saved is not None:
            try:
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)  # type: ignore[arg-type]
            except termios.error:
                pass  # the terminal is gone, and its modes with it
            self._saved = None
