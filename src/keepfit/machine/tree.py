"""A whole process tree, sampled cheaply: descriptors are kept, newcomers are found by difference."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable

from ..facts import ChildDeath
from ..quick import dataclass
from . import procfs
from .procfs import PAGE


@dataclass
class _Member:
    """One process of the tree, with its kept descriptors."""

    pid: int
    name: str
    start: int
    statm: int
    stat: int
    rss: int = 0
    anon: int = 0
    shared: int = 0
    last: procfs.Stat | None = None
    shmem: int = 0
    swap: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    open_files: int = 0
    # What it had when it was first seen: a fork shows its parent's pages again, which is not growth.
    inherited: int = 0


@dataclass(frozen=True)
class TreeReading:
    """Sums over the tree. `anon + shmem` counts pages shared between processes several times."""

    processes: int = 0
    threads: int = 0
    state: str = "?"
    rss: int = 0
    anon: int = 0
    file: int = 0
    shmem: int = 0
    swap: int = 0
    cpu: float = 0.0
    faults: int = 0
    major_faults: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    open_files: int = 0
    inherited: int = 0


@dataclass
class _Gone:
    """What processes that have ended had used: a tree's totals never run backwards."""

    cpu: float = 0.0
    faults: int = 0
    major_faults: int = 0
    read_bytes: int = 0
    write_bytes: int = 0


class ProcessTree:
    """The descendants of `root`, and of those adopted, for as long as anybody of them lives.

    `measure` is the hot path: one pread a process. The rest is read by `count` (state, CPU, faults)
    and `detail` (split, swap, I/O, open files) at lower rates. A process is known by pid and start
    time; a daemon that left its parent stays a member because it was seen before it did.
    """

    def __init__(self, root: int, proc: str = "/proc", ignore: Iterable[int] = (), adopter: int | None = None) -> None:
        self.root = root
        self._adopter = adopter  # a subreaper: the orphans of the tree become its children
        self.proc = proc
        self._ignore = frozenset(ignore)
        self._members: dict[int, _Member] = {}
        self._strangers: set[int] = set()
        self._newest: bytes | None = None
        self._gone = _Gone()
        self.deaths: list[ChildDeath] = []
        self._make_room_for_descriptors()
        self._add(root)
        self.discover()

    @staticmethod
    def _make_room_for_descriptors() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 8192 if hard == resource.RLIM_INFINITY else min(8192, hard)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

    @property
    def pids(self) -> list[int]:
        return list(self._members)

    def name(self, pid: int) -> str:
        member = self._members.get(pid)
        return member.name if member else "?"

    def _add(self, pid: int, known: procfs.Stat | None = None) -> None:
        known = known or procfs.stat(pid, self.proc)
        if known is None:
            return
        try:
            statm = os.open(f"{self.proc}/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            stat = os.open(f"{self.proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            os.close(statm)
            return
        member = _Member(pid, known.name, known.start, statm, stat, last=known)
        self._members[pid] = member
        self._measure_one(member)
        if pid != self.root:
            member.inherited = member.anon

    def _drop(self, member: _Member, now: float) -> None:
        os.close(member.statm)
        os.close(member.stat)
        del self._members[member.pid]
        gone = self._gone
        if member.last:
            gone.cpu += member.last.cpu
            gone.faults += member.last.minor_faults
            gone.major_faults += member.last.major_faults
        gone.read_bytes += member.read_bytes
        gone.write_bytes += member.write_bytes
        if member.pid != self.root:
            self.deaths.append(ChildDeath(member.pid, member.name, now, member.rss))

    def discover_if_any(self) -> None:
        """Newcomers, where the kernel has given a pid away since the last look: one read tells, a listing is dear."""
        newest = procfs.newest_pid(self.proc)
        if newest != self._newest:
            self._newest = newest
            self.discover()

    def discover(self) -> None:
        """Find newcomers: only pids not seen before are looked at, so a steady tree costs one listing."""
        try:
            present = {int(name) for name in os.listdir(self.proc) if name.isdigit()}
        except OSError:
            return
        self._strangers &= present
        newcomers: dict[int, procfs.Stat] = {}
        for pid in present - self._strangers - self._members.keys() - self._ignore:
            known = procfs.stat(pid, self.proc)
            if known is not None and known.state not in "ZX":
                newcomers[pid] = known
        grew = True
        while grew:  # a child may be listed before its parent is a member
            grew = False
            for pid, known in list(newcomers.items()):
                if known.parent in self._members or known.parent == self._adopter:
                    self._add(pid, known)
                    del newcomers[pid]
                    grew = True
        self._strangers.update(newcomers)

    def _measure_one(self, member: _Member) -> bool:
        try:
            words = os.pread(member.statm, 128, 0).split(None, 3)
        except OSError:
            return False
        resident = int(words[1]) * PAGE
        member.shared = int(words[2]) * PAGE
        member.rss = resident
        member.anon = resident - member.shared
        # A dead or zombie process keeps its pid but has no memory.
        return True

    def measure(self, now: float) -> None:
        for member in list(self._members.values()):
            if not self._measure_one(member):
                self._drop(member, now)

    def count(self, now: float) -> None:
        for member in list(self._members.values()):
            try:
                member.last = procfs.parse_stat(os.pread(member.stat, 1024, 0))
            except (OSError, ValueError, IndexError):
                self._drop(member, now)
                continue
            member.name = member.last.name
            if member.last.state in "ZX" and member.pid != self.root:
                self._drop(member, now)

    def detail(self) -> None:
        for member in self._members.values():
            status = procfs.status(member.pid, self.proc)
            member.shmem = status.get("RssShmem", 0)
            member.swap = status.get("VmSwap", 0)
            io = procfs.fields(procfs.read_bytes(f"{self.proc}/{member.pid}/io"))
            member.read_bytes = io.get("read_bytes", member.read_bytes)
            member.write_bytes = io.get("write_bytes", member.write_bytes)
            member.open_files = procfs.open_files(member.pid, self.proc)

    def shared_once(self) -> int | None:
        """The tree's use with shared pages counted once, or None where the kernel does not tell."""
        total = 0
        for pid in self.pids:
            one = procfs.shared_once(pid, self.proc)
            if one is None and _has_memory(pid, self.proc):
                return None
            total += one or 0
        return total

    def reading(self) -> TreeReading:
        members = list(self._members.values())
        root = self._members.get(self.root)
        rss = anon = shmem = swap = shared = threads = faults = major = 0
        cpu = self._gone.cpu
        read, written = self._gone.read_bytes, self._gone.write_bytes
        files = inherited = 0
        for m in members:
            rss += m.rss
            anon += m.anon
            shared += m.shared
            shmem += m.shmem
            swap += m.swap
            inherited += min(m.inherited, m.anon)
            read += m.read_bytes
            written += m.write_bytes
            files += m.open_files
            if m.last:
                threads += m.last.threads
                cpu += m.last.cpu
                faults += m.last.minor_faults
                major += m.last.major_faults
        return TreeReading(
            processes=len(members),
            threads=threads,
            state=root.last.state if root and root.last else "?",
            rss=rss,
            anon=anon,
            file=max(0, shared - shmem),
            shmem=min(shmem, shared),
            swap=swap,
            cpu=cpu,
            faults=faults + self._gone.faults,
            major_faults=major + self._gone.major_faults,
            read_bytes=read,
            write_bytes=written,
            open_files=files,
            inherited=inherited,
        )

    def close(self) -> None:
        for member in self._members.values():
            os.close(member.statm)
            os.close(member.stat)
        self._members.clear()


def _has_memory(pid: int, proc: str) -> bool:
    """Whether the process still holds any: a zombie, like one that is gone, does not."""
    known = procfs.stat(pid, proc)
    return known is not None and known.state not in "ZX"
