"""The kernel's own words: /dev/kmsg, then journalctl, else "not readable"."""

from __future__ import annotations

import os
import re

from ..quick import dataclass
from . import bounded

# Lines worth keeping: the out-of-memory killer, faults, I/O errors, cgroup notes.
_RELEVANT = re.compile(
    r"oom|out of memory|killed process|segfault|trap |general protection|bus error|i/o error|"
    r"blocked for more than|hung|nfs: server|nvrm|xid|page allocation failure|undefined instruction|"
    r"unhandled|not responding|link is down|remount",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class OomKill:
    """One kill by the kernel's out-of-memory killer."""

    pid: int
    name: str
    constraint: str | None = None  # CONSTRAINT_MEMCG: a limit; CONSTRAINT_NONE: the host ran out
    limit_path: str | None = None  # the cgroup whose limit was reached
    task_path: str | None = None  # the cgroup the victim was in


_CONSTRAINT = re.compile(r"oom-kill:constraint=(?P<constraint>\w+).*?task=(?P<name>.*),pid=(?P<pid>\d+),uid=")
_PATHS = re.compile(r"oom_memcg=(?P<limit>.*?),task_memcg=(?P<task>.*?),task=")
_KILLED = re.compile(r"[Kk]illed process (?P<pid>\d+) \((?P<name>.*?)\)")


def oom_kills(lines: tuple[str, ...]) -> list[OomKill]:
    """Every kill the lines tell of, oldest first, one per victim."""
    kills: dict[int, OomKill] = {}
    for line in lines:
        if match := _CONSTRAINT.search(line):
            paths = _PATHS.search(line)
            kills[int(match["pid"])] = OomKill(
                int(match["pid"]),
                match["name"],
                match["constraint"],
                paths["limit"] if paths else None,
                paths["task"] if paths else None,
            )
        elif match := _KILLED.search(line):
            pid = int(match["pid"])
            # "Memory cgroup out of memory: Killed process …" names the kind, but not the level.
            constraint = "CONSTRAINT_MEMCG" if "emory cgroup out of memory" in line else None
            if constraint is None and "Out of memory" in line:
                constraint = "CONSTRAINT_NONE"
            kills.setdefault(pid, OomKill(pid, match["name"], constraint))
    return list(kills.values())


class KernelLog:
    """What the kernel says from now on.

    /dev/kmsg is opened at its end and read without blocking, so the lines are exactly those of this
    run. Where it is closed to us journalctl is asked, once, at the end.
    """

    def __init__(self, device: str = "/dev/kmsg") -> None:
        self._fd: int | None = None
        self.why_not: str | None = None
        try:
            self._fd = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self.why_not = error.strerror

    def fileno(self) -> int | None:
        return self._fd

    def new_lines(self, since: float = 0.0) -> list[str]:
        """Relevant lines since the last call; nothing, quickly, when there is nothing."""
        lines: list[str] = []
        while self._fd is not None:
            try:
                record = os.read(self._fd, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten before we came: go on with the next
                continue
            except OSError:
                break
            if not record:
                break
            when, text = _parse(record)
            if when >= since:
                lines.append(text)
        return [line for line in lines if _RELEVANT.search(line)]

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _parse(record: bytes) -> tuple[float, str]:
    """`level,seq,microseconds,flags;message` as (seconds since boot, message); continuation lines are dropped."""
    head, _, message = record.decode(errors="replace").partition(";")
    words = head.split(",")
    seconds = int(words[2]) / 1e6 if len(words) > 2 and words[2].isdigit() else 0.0
    return seconds, message.split("\n", 1)[0]


def from_journal(since: float, seconds: float = 2.0) -> tuple[str, ...] | None:
    """Relevant kernel lines since a wall-clock time through journalctl, or None."""
    argv = ["journalctl", "--dmesg", "--no-pager", "--quiet", "--output=cat", f"--since=@{int(since)}"]
    text = bounded.output(argv, seconds)
    if not text:
        return None
    return tuple(line for line in text.splitlines() if _RELEVANT.search(line))


def since(moment: float, device: str = "/dev/kmsg") -> tuple[str, ...] | None:
    """Relevant lines from a moment (CLOCK_MONOTONIC) on: for a death nobody was there to see."""
    log = KernelLog(device)
    fd = log.fileno()
    if fd is None:
        return None
    os.lseek(fd, 0, os.SEEK_SET)
    lines = tuple(log.new_lines(since=moment))
    log.close()
    return lines
