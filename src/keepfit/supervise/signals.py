"""Signals as a descriptor, with their senders: nothing is interrupted, and nobody has to look in vain."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
from collections.abc import Iterable, Iterator

from ..quick import dataclass

_SIGSET_SIZE = 128
_INFO_SIZE = 128
_HEAD = struct.Struct("=IiiI")  # struct signalfd_siginfo: number, errno, code, pid
_VALUE = struct.Struct("=Q")  # ssi_ptr: what came with a signal that was queued
_VALUE_AT = 48
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_FROM_KERNEL, _QUEUED = 0x80, -1  # SI_KERNEL, SI_QUEUE

# Nobody can catch the first two; the next two are a terminal's word to a job in the background, and act on us as on it.
_NOT_OURS = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTTIN, signal.SIGTTOU)
ALL = tuple(sorted(int(number) for number in signal.valid_signals() if number not in _NOT_OURS))


@dataclass(frozen=True)
class Arrived:
    """One signal that reached us."""

    number: int
    sender: int | None  # pid; None: the kernel, or a process outside our pid namespace
    typed: bool  # made by a terminal
    value: int | None = None  # what was queued with it

    def pass_on(self, pid: int) -> None:
        """To another process, with what came with it."""
        if self.value is None:
            os.kill(pid, self.number)
        elif ctypes.CDLL(None).sigqueue(pid, self.number, ctypes.c_void_p(self.value)):
            raise ProcessLookupError


class SignalQueue:
    """The signals named, held back from their usual effect and read one by one.

    Where `signalfd` is refused (a sandbox), `fileno` is None and they are asked for at every turn instead.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = tuple(numbers)
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)
        self._fd = self._open()

    def _open(self) -> int | None:
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL(None, use_errno=True)
            wanted = ctypes.create_string_buffer(_SIGSET_SIZE)
            libc.sigemptyset(wanted)
            for number in self._numbers:
                libc.sigaddset(wanted, int(number))
            fd = libc.signalfd(-1, wanted, _NONBLOCK_CLOEXEC)
            return fd if isinstance(fd, int) and fd >= 0 else None
        return None

    def fileno(self) -> int | None:
        return self._fd

    def take(self) -> Iterator[Arrived]:
        while True:
            found = self._next() if self._fd is not None else self._ask()
            if found is None:
                return
            yield found

    def _next(self) -> Arrived | None:
        assert self._fd is not None
        try:
            info = os.read(self._fd, _INFO_SIZE)
        except BlockingIOError:
            return None
        number, _, code, sender = _HEAD.unpack_from(info)
        (value,) = _VALUE.unpack_from(info, _VALUE_AT)
        return _arrived(number, code, sender, value)

    def _ask(self) -> Arrived | None:
        info = signal.sigtimedwait(self._numbers, 0)
        return _arrived(info.si_signo, info.si_code, info.si_pid) if info is not None else None

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def _arrived(number: int, code: int, sender: int, value: int = 0) -> Arrived:
    typed = code == _FROM_KERNEL
    return Arrived(number, None if typed else sender or None, typed, value if code == _QUEUED else None)
