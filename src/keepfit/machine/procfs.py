"""Raw /proc: the few numbers the sampler needs, at a few microseconds each."""

from __future__ import annotations

import os
from pathlib import Path

from ..quick import dataclass

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Stat:
    """The fields of /proc/PID/stat that we use."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    minor_faults: int
    major_faults: int
    cpu: float  # seconds, user + system
    threads: int
    start: int  # clock ticks since boot: with the pid, an identity


def parse_stat(text: bytes) -> Stat:
    """Parse /proc/PID/stat. The name may itself hold spaces and brackets, so cut at the last one."""
    head, _, tail = text.rpartition(b")")
    pid, _, name = head.partition(b" (")
    f = tail.split()
    return Stat(
        pid=int(pid),
        name=name.decode(errors="replace"),
        state=f[0].decode(),
        parent=int(f[1]),
        group=int(f[2]),
        session=int(f[3]),
        minor_faults=int(f[7]),
        major_faults=int(f[9]),
        cpu=(int(f[11]) + int(f[12])) / TICKS,
        threads=int(f[17]),
        start=int(f[19]),
    )


def read_bytes(path: str, limit: int = 1 << 16) -> bytes | None:
    """A small pseudo-file, or None when it is gone or closed to us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, limit)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat(pid: int, proc: str = "/proc") -> Stat | None:
    text = read_bytes(f"{proc}/{pid}/stat")
    try:
        return parse_stat(text) if text else None
    except (ValueError, IndexError):
        return None


def fields(text: bytes | None) -> dict[str, int]:
    """`Name:   123 kB` lines (status, meminfo, smaps_rollup, io) as bytes or plain counts."""
    found: dict[str, int] = {}
    for line in (text or b"").splitlines():
        key, colon, value = line.partition(b":")
        words = value.split()
        if colon and words and words[0].isdigit():
            scale = 1024 if words[1:] == [b"kB"] else 1
            found[key.decode(errors="replace").strip()] = int(words[0]) * scale
    return found


def status(pid: int, proc: str = "/proc") -> dict[str, int]:
    return fields(read_bytes(f"{proc}/{pid}/status"))


def shared_once(pid: int, proc: str = "/proc") -> int | None:
    """Bytes of this process that cannot be given back, shared pages divided among their sharers.

    Exact but slow (about 8 ms per GB), so it is asked for only near the danger line.
    """
    rollup = fields(read_bytes(f"{proc}/{pid}/smaps_rollup"))
    if "Pss_Anon" not in rollup:
        return None
    return rollup["Pss_Anon"] + rollup.get("Pss_Shmem", 0)


def meminfo(proc: str = "/proc") -> dict[str, int]:
    return fields(read_bytes(f"{proc}/meminfo"))


def newest_pid(proc: str = "/proc") -> bytes | None:
    """The pid that was given away last, as the kernel writes it."""
    return (read_bytes(f"{proc}/loadavg") or b"").rpartition(b" ")[2] or None


def boot_id(proc: str = "/proc") -> str:
    return (read_bytes(f"{proc}/sys/kernel/random/boot_id") or b"").decode().strip()


def same_process(pid: int, start: int, boot: str, proc: str = "/proc") -> bool:
    """Whether the process known by (pid, start time, boot id) is alive: a reused pid is another one."""
    if boot != boot_id(proc):
        return False
    now = stat(pid, proc)
    return now is not None and now.start == start and now.state not in "ZX"


def catches(pid: int, signal: int, proc: str = "/proc") -> bool:
    """Whether the process has a handler for this signal (an unhandled one would end it)."""
    return _is_in_mask(b"SigCgt:", pid, signal, proc)


def ignores(pid: int, signal: int, proc: str = "/proc") -> bool:
    return _is_in_mask(b"SigIgn:", pid, signal, proc)


def _is_in_mask(name: bytes, pid: int, signal: int, proc: str) -> bool:
    for line in (read_bytes(f"{proc}/{pid}/status") or b"").splitlines():
        if line.startswith(name):
            return bool(int(line.split()[1], 16) >> (signal - 1) & 1)
    return False


def is_in_an_orphaned_group() -> bool:
    """Whether nobody in our session could let our group go on, once it is stopped: then the kernel stops it not."""
    group, session = os.getpgrp(), os.getsid(0)
    above = stat(os.getppid())
    while above is not None and above.group == group and above.parent:
        above = stat(above.parent)
    return above is None or above.group == group or above.session != session


def traced(pid: int, proc: str = "/proc") -> bool:
    """Whether a debugger holds this process."""
    return status(pid, proc).get("TracerPid", 0) != 0


def command_line(pid: int, proc: str = "/proc") -> list[str]:
    text = read_bytes(f"{proc}/{pid}/cmdline") or b""
    return [word.decode(errors="replace") for word in text.split(b"\0") if word]


# System calls that wait for input: read(fd, …), and poll or select on a single descriptor, which is what
# a line editor does. Numbers of x86-64 and of the generic table (arm64, riscv64).
_READS = {0, 63}
_WAITS = {7, 23, 270, 271, 72, 73}


def reads_terminal(pid: int, proc: str = "/proc") -> bool:
    """Whether a thread of the process waits for a terminal's input (a prompt, pdb)."""
    for task in tasks(pid, proc):
        words = (read_bytes(f"{proc}/{pid}/task/{task}/syscall") or b"").split()
        if len(words) < 3 or not words[0].isdigit():
            continue
        number, first, second = int(words[0]), int(words[1], 16), int(words[2], 16)
        if number in _READS and _is_terminal(pid, first, proc):
            return True
        if number in _WAITS and 1 in (first, second) and _is_terminal(pid, 0, proc):
            return True
    return False


def _is_terminal(pid: int, fd: int, proc: str) -> bool:
    try:
        target = os.readlink(f"{proc}/{pid}/fd/{fd}")
    except OSError:
        return False
    return target.startswith(("/dev/pts/", "/dev/tty", "/dev/console"))


def tasks(pid: int, proc: str = "/proc") -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"{proc}/{pid}/task")]
    except OSError:
        return []


def waiting_in(pid: int, proc: str = "/proc") -> tuple[str, ...]:
    """Kernel functions in which the uninterruptible (D) threads of a process wait."""
    found = set()
    for task in tasks(pid, proc):
        text = read_bytes(f"{proc}/{pid}/task/{task}/stat")
        if text and text.rpartition(b")")[2].split()[:1] == [b"D"]:
            where = (read_bytes(f"{proc}/{pid}/task/{task}/wchan") or b"").decode(errors="replace")
            found.add(where if where not in ("", "0") else "uninterruptible")
    return tuple(sorted(found))


def in_first_pid_namespace(proc: str = "/proc") -> bool:
    """Whether pids here are the pids the kernel log speaks of."""
    try:
        return os.readlink(f"{proc}/self/ns/pid") == "pid:[4026531836]"
    except OSError:
        return Path(proc) != Path("/proc")


def open_files(pid: int, proc: str = "/proc") -> int:
    """Open descriptors: the directory's size where the kernel gives it (6.2+), else a listing."""
    try:
        size = os.stat(f"{proc}/{pid}/fd").st_size
        return size or len(os.listdir(f"{proc}/{pid}/fd"))
    except OSError:
        return 0
