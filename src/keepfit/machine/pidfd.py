"""Process descriptors: waiting for, signalling and asking about a process without racing its pid."""

from __future__ import annotations

import fcntl
import os
import struct
import time

from ..facts import Exit
from .procfs import read_bytes

# struct pidfd_info of linux/pidfd.h, version 0: mask, cgroupid, eleven ids, exit_code.
_INFO = struct.Struct("=QQ" + "I" * 11 + "i")
_EXIT = 1 << 3  # PIDFD_INFO_EXIT, Linux 6.15
_SIZE = _INFO.size
_IOC_READ_WRITE = 3
PIDFD_GET_INFO = (_IOC_READ_WRITE << 30) | (_SIZE << 16) | (0xFF << 8) | 11


def open_pid(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def decode(wait_status: int) -> Exit:
    """A wait(2) status as an Exit."""
    if os.WIFSIGNALED(wait_status):
        return Exit(signal=os.WTERMSIG(wait_status), core=os.WCOREDUMP(wait_status))
    return Exit(status=os.WEXITSTATUS(wait_status))


def exit_of(fd: int) -> Exit | None:
    """How a process that is not our child ended: told by the kernel (6.15 and later) once it was reaped."""
    request = bytearray(_SIZE)
    _INFO.pack_into(request, 0, _EXIT, 0, *([0] * 12))
    try:
        fcntl.ioctl(fd, PIDFD_GET_INFO, request)
    except OSError:
        return None
    values = _INFO.unpack(request)
    return decode(values[-1]) if values[0] & _EXIT else None


def exit_of_zombie(pid: int, proc: str = "/proc") -> Exit | None:
    """The same while nobody has reaped it yet: the last field of its stat, where we may read it."""
    text = read_bytes(f"{proc}/{pid}/stat")
    fields = text.rpartition(b")")[2].split() if text else []
    if len(fields) < 50 or fields[0] != b"Z" or not fields[49].isdigit():
        return None
    return decode(int(fields[49]))


def exit_soon(fd: int | None, pid: int, seconds: float = 1.0) -> Exit | None:
    """Ask both ways until one answers: between death and reaping neither may."""
    deadline = time.monotonic() + seconds
    while True:
        found = exit_of_zombie(pid) or (exit_of(fd) if fd is not None else None)
        if found is not None or time.monotonic() >= deadline:
            return found
        time.sleep(0.005)
