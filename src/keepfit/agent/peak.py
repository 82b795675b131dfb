"""The most memory this process has used over a stretch of its life, exactly, from the kernel."""

from __future__ import annotations

import ctypes
import os


class Peak:
    """The peak of anonymous memory since it was made (or last `reset`).

    Writing 5 to clear_refs sets the kernel's high-water mark back to the present. Where that is not allowed
    the mark only ever rises, which is right as long as the later stretches need more than the earlier ones.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass  # a sandbox: the mark stays, and over-estimates
        self.before = anonymous()

    def read(self) -> int:
        fields = _status()
        return max(0, fields.get("VmHWM", 0) - fields.get("RssFile", 0))


def most() -> int:
    """The most that was in use since the last `Peak` was begun, or ever."""
    fields = _status()
    return max(fields.get("VmHWM", 0) - fields.get("RssFile", 0), fields.get("RssAnon", 0) + fields.get("RssShmem", 0))


def anonymous() -> int:
    """Anonymous and shared memory in use now: what counts against a limit."""
    fields = _status()
    return fields.get("RssAnon", 0) + fields.get("RssShmem", 0)


def files() -> int:
    """Pages of files in memory: program code, above all. They are given back under pressure."""
    return _status().get("RssFile", 0)


# What says how much of what is freed glibc's malloc keeps: variables, and their names among its tunables.
_SETTINGS = {"MALLOC_ARENA_MAX": "glibc.malloc.arena_max", "MALLOC_MMAP_THRESHOLD_": "glibc.malloc.mmap_threshold"}


def malloc_settings() -> dict[str, str | None]:
    """What was chosen of malloc's settings, None for each that nobody has; nothing where it is not glibc's own."""
    try:
        of_glibc = hasattr(ctypes.CDLL(None), "malloc_trim") and not os.environ.get("LD_PRELOAD")  # maybe another's
    except OSError:
        of_glibc = False
    words = (word.partition("=") for word in os.environ.get("GLIBC_TUNABLES", "").split(":"))
    tunables = {name: value for name, _, value in words}
    return {variable: os.environ.get(variable, tunables.get(name)) for variable, name in _SETTINGS.items() if of_glibc}


_M_MMAP_THRESHOLD = -3
_MAPPED_FROM = 128 << 10  # bytes; glibc's own value at the start


def give_back() -> None:
    """Freed memory that malloc keeps goes back to the system, now (glibc; elsewhere nothing happens)."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        pass


def keep_giving_back() -> None:
    """From now on every freed block of 128 KiB and more goes back to the system at once.

    So glibc begins; but it raises that size by itself, up to 32 MiB, and then keeps blocks of the size of a
    micro-batch's tensors in heaps that fragment: measured, four parts of a batch peaked at 0.6 of the whole
    instead of 0.27, and no two runs alike. What it costs is fresh pages, little against the work done in them.
    """
    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM)
    except (AttributeError, OSError):
        pass
    give_back()


def stop_giving_back() -> None:
    """As glibc would have it by then: blocks of up to 32 MiB are kept for the next time."""
    try:
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 32 << 20)
    except (AttributeError, OSError):
        pass


def _status() -> dict[str, int]:
    wanted = ("VmHWM", "RssAnon", "RssFile", "RssShmem")
    found = {}
    with open(f"/proc/{os.getpid()}/status") as file:
        for line in file:
            name, _, rest = line.partition(":")
            if name in wanted:
                found[name] = int(rest.split()[0]) * 1024
    return found
