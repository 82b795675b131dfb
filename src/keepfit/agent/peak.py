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


def anonymous() -> int:
    """Anonymous and shared memory in use now: what counts against a limit."""
    fields = _status()
    return fields.get("RssAnon", 0) + fields.get("RssShmem", 0)


def give_back() -> None:
    """Freed memory that malloc keeps goes back to the system (glibc; elsewhere nothing happens)."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
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
