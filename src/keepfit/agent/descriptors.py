"""Our descriptors in the training's process: out of reach of what it does with its own.

A program closes numbers that it does not know, and opens files of its own in their place. What we hold open lies
beyond the numbers that it may open, or as far up as there are any (`dormant` does the same before a framework comes).
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import resource

FAR = 4096


def shared(fd: int, size: int) -> memoryview:
    """A file's memory, for as long as the process lives. (`mmap` would keep a descriptor of its own, where we cannot
    put it, and close that number at the end, whoever has it then.)"""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "the pulse cannot be mapped")
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def lift(fd: int) -> int:
    """The same file under such a number; as it is, where there is none to be had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if fd >= min(soft, FAR) // 2:
        return fd
    beyond = soft != resource.RLIM_INFINITY and soft <= FAR
    least = soft if beyond else FAR
    try:
        if beyond:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        lifted = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
    except (OSError, ValueError):  # no more than it may open itself: the upper half of that, then
        try:
            lifted = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, min(soft, FAR) // 2)
        except OSError:
            return fd
    finally:
        if beyond:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    os.close(fd)
    return lifted
