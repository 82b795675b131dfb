"""Memory cgroups, v1 and v2 and both at once: the levels above a process, their limits and counters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..facts import OomCounters
from ..quick import dataclass
from . import procfs

# v1 writes "no limit" as the largest page-aligned number; anything near it means the same.
UNLIMITED = 1 << 60


@dataclass(frozen=True)
class Level:
    """One memory cgroup level: a directory, and the path the kernel log calls it by."""

    directory: str
    path: str
    version: int

    def number(self, name: str) -> int | None:
        text = procfs.read_bytes(os.path.join(self.directory, name))
        if text is None:
            return None
        word = text.strip()
        return int(word) if word.isdigit() else None

    def table(self, name: str) -> dict[str, int]:
        """A `key value` file such as memory.stat or memory.events."""
        found = {}
        for line in (procfs.read_bytes(os.path.join(self.directory, name)) or b"").splitlines():
            key, _, value = line.partition(b" ")
            if value.strip().isdigit():
                found[key.decode(errors="replace")] = int(value)
        return found

    @property
    def limit(self) -> int | None:
        """Bytes, or None for no limit. On v2 `memory.high` throttles long before `memory.max` kills."""
        if self.version == 1:
            value = self.number("memory.limit_in_bytes")
            return value if value is not None and value < UNLIMITED else None
        bounds = [b for b in (self.number("memory.max"), self.number("memory.high")) if b is not None]
        return min(bounds, default=None)

    @property
    def total_use(self) -> int | None:
        return self.number("memory.usage_in_bytes" if self.version == 1 else "memory.current")

    @property
    def use(self) -> int | None:
        """What the kernel cannot give back here: page cache, which it can, is left out."""
        stat = self.table("memory.stat")
        if not stat:
            return None
        if self.version == 1:
            # total_* sums the level's children; the plain keys are this level alone.
            anon, shmem = stat.get("total_rss", stat.get("rss", 0)), stat.get("total_shmem", 0)
            kernel = self.number("memory.kmem.usage_in_bytes") or 0
            return anon + shmem + kernel
        if "kernel" in stat:  # Linux 5.18 and later; of it only the reclaimable slab can be given back
            kernel = stat["kernel"] - stat.get("slab_reclaimable", 0)
        else:
            kernel = stat.get("kernel_stack", 0) + stat.get("slab_unreclaimable", 0)
        return max(0, stat.get("anon", 0) + stat.get("shmem", 0) + kernel)

    def counters(self) -> OomCounters:
        if self.version == 1:
            oom_kill = self.table("memory.oom_control").get("oom_kill")
            failures = self.number("memory.failcnt")
            peak = self.number("memory.max_usage_in_bytes")
        else:
            # `events` sums the children as well; where there is a local file it speaks of this level.
            events = self.table("memory.events")
            oom_kill = events.get("oom_kill")
            failures = self.table("memory.events.local").get("max", events.get("max"))
            peak = self.number("memory.peak")
        return OomCounters(self.path, oom_kill, failures, self.limit, self.total_use, peak)

    @property
    def members(self) -> list[int]:
        text = procfs.read_bytes(os.path.join(self.directory, "cgroup.procs"), 1 << 20) or b""
        return [int(word) for word in text.split()]


@dataclass(frozen=True)
class Placement:
    """Where a process stands: its own level first, the root last. Empty where nothing is mounted."""

    levels: tuple[Level, ...]

    @property
    def own(self) -> Level | None:
        return self.levels[0] if self.levels else None


def _unescape(path: str) -> str:
    return path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _mounts(proc: str, pid: int | str) -> Iterator[tuple[str, str, str, str]]:
    """(root, mount point, type, super options) of every mount the process sees."""
    for line in (procfs.read_bytes(f"{proc}/{pid}/mountinfo", 1 << 20) or b"").decode().splitlines():
        head, _, tail = line.partition(" - ")
        left, right = head.split(), tail.split()
        if len(left) >= 5 and len(right) >= 3:
            yield _unescape(left[3]), _unescape(left[4]), right[0], right[2]


def _memory_path(proc: str, pid: int | str) -> tuple[str | None, str | None]:
    """The process' path in the v1 memory hierarchy, and in the v2 one."""
    v1 = v2 = None
    for line in (procfs.read_bytes(f"{proc}/{pid}/cgroup") or b"").decode().splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            v2 = path
        elif "memory" in controllers.split(","):
            v1 = path
    return v1, v2


def placement(pid: int | str = "self", proc: str = "/proc", root: str = "") -> Placement:
    """The memory cgroup levels above a process.

    `root` is put in front of every mount point, so that whole trees can be read from fixtures. In a
    hybrid tree the memory controller lives in v1 or in v2, never in both: v1 wins where it is named.
    """
    v1, v2 = _memory_path(proc, pid)
    wanted_version = 1 if v1 is not None else 2
    path = v1 if v1 is not None else v2
    if path is None:
        return Placement(())
    for mount_root, mount_point, kind, options in _mounts(proc, pid):
        matches = (wanted_version == 1 and kind == "cgroup" and "memory" in options.split(",")) or (
            wanted_version == 2 and kind == "cgroup2"
        )
        if not matches:
            continue
        inside = _below(path, mount_root)
        levels = tuple(_levels_up(root + mount_point, inside, wanted_version))
        if wanted_version == 2 and not any(_has_memory(level) for level in levels):
            continue
        return Placement(levels)
    return Placement(())


def _has_memory(level: Level) -> bool:
    return os.path.exists(os.path.join(level.directory, "memory.stat"))


def _below(path: str, mount_root: str) -> str:
    """The process' path as seen from the mount: in a container only a part of the tree is mounted."""
    if mount_root == "/" or mount_root.startswith("/.."):
        return path
    if path == mount_root or path.startswith(mount_root + "/"):
        return path[len(mount_root) :] or "/"
    return "/"


def _levels_up(mount_point: str, path: str, version: int) -> Iterator[Level]:
    parts = [part for part in Path(path).parts if part not in ("/", "..")]
    for depth in range(len(parts), -1, -1):
        inside = "/" + "/".join(parts[:depth])
        directory = mount_point if depth == 0 else os.path.join(mount_point, *parts[:depth])
        if os.path.isdir(directory):
            yield Level(directory, inside, version)
