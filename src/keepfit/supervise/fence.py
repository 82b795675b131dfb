"""The fence: a memory cgroup of our own around the command, so that a budget holds to the byte.

It is made *below* the cgroup keepfit itself stands in, because a sibling elsewhere would escape the
container's own limit. On v1 the kernel is told to freeze instead of kill at the limit (`oom_kill_disable`)
and to tell us (`eventfd`); on v2 `memory.high` holds the command back just below `memory.max`.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Mapping

from ..machine import bounded, cgroup, procfs
from ..machine.cgroup import Level
from . import posture

# On v2 the command is held (memory.high) this far below the budget, where the kernel would kill (memory.max).
V2_MARGIN = 16 << 20
V2_MARGIN_SHARE = 0.02
SYSTEMD_SECONDS = 3.0  # for the user's systemd to answer at all


class Fence:
    """A cgroup we made. `attention` is a descriptor to poll, `events` what to poll it for."""

    how = "cgroup"
    freezes = False  # whether the kernel keeps the command frozen at the line until somebody acts

    def __init__(self, level: Level, budget: int) -> None:
        self.level = level
        self.budget = budget
        self.attention: int | None = None
        self.events = select.POLLIN

    def join(self) -> None:
        """In the child, before exec: become a member."""
        with open(os.path.join(self.level.directory, "cgroup.procs"), "w") as file:
            file.write("0")

    def reached(self) -> bool:
        """Whether the command stands at the line now."""
        return False

    def freeze(self) -> None:
        """Keep the command from going on while it is looked at."""

    def let_go(self) -> None:
        """Nobody watches any more: the kernel alone shall hold the line, and nothing may stay frozen."""

    def widen(self, limit: int) -> None:
        """Let the command have more than its budget, to see what it would have needed."""

    def remove(self) -> None:
        """Take the cgroup away; what is left in it (a daemon) moves up to where it would have been."""
        parent = os.path.dirname(self.level.directory)
        for pid in self.level.members:
            try:
                _write(os.path.join(parent, "cgroup.procs"), str(pid))
            except OSError:
                continue
        try:
            os.rmdir(self.level.directory)
        except OSError:
            return  # still busy: an empty cgroup costs nothing


class FenceV1(Fence):
    how = "cgroup-v1"
    freezes = True

    def __init__(self, level: Level, budget: int) -> None:
        super().__init__(level, budget)
        self._left = 0  # bytes: the line that was here before a wider one
        _write(os.path.join(level.directory, "memory.limit_in_bytes"), str(budget))
        try:  # no escape into swap, where that is accounted for
            _write(os.path.join(level.directory, "memory.memsw.limit_in_bytes"), str(budget))
        except OSError:
            pass  # swap accounting is off on this kernel
        self._control = os.path.join(level.directory, "memory.oom_control")
        _write(self._control, "1")
        self.attention = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        control = os.open(self._control, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _write(os.path.join(level.directory, "cgroup.event_control"), f"{self.attention} {control}")
        finally:
            os.close(control)

    def widen(self, limit: int) -> None:
        for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes"):  # never above the one with swap
            path = os.path.join(self.level.directory, name)
            if os.path.exists(path):
                _write(path, str(limit))
        self._left = self.budget

    def reached(self) -> bool:
        if self.level.table("memory.oom_control").get("under_oom") != 1:
            return False
        # Whoever stood at the line that was left still counts as standing there until it has run again.
        return not self._left or (self.level.use or 0) > self._left

    def let_go(self) -> None:
        _write(self._control, "0")


class FenceV2(Fence):
    how = "cgroup-v2"

    def __init__(self, level: Level, budget: int) -> None:
        super().__init__(level, budget)
        self._held_at = held_at(budget)
        events = os.path.join(level.directory, "memory.events")
        self.attention = os.open(events, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self.events = select.POLLPRI

    @classmethod
    def create(cls, level: Level, budget: int) -> FenceV2:
        _write(os.path.join(level.directory, "memory.max"), str(budget))
        _write(os.path.join(level.directory, "memory.high"), str(held_at(budget)))
        try:
            _write(os.path.join(level.directory, "memory.swap.max"), "0")
        except OSError:
            pass  # no swap accounting on this machine
        return cls(level, budget)

    def reached(self) -> bool:
        """`high` events also come from page cache, which is given back: only the rest counts."""
        assert self.attention is not None
        os.pread(self.attention, 512, 0)  # re-arms the notification
        use = self.level.use
        return use is not None and use >= self._held_at

    def widen(self, limit: int) -> None:
        _write(os.path.join(self.level.directory, "memory.max"), str(limit))
        _write(os.path.join(self.level.directory, "memory.high"), str(limit))
        self._held_at = limit
        _write(os.path.join(self.level.directory, "cgroup.freeze"), "0")

    def freeze(self) -> None:
        _write(os.path.join(self.level.directory, "cgroup.freeze"), "1")

    def let_go(self) -> None:
        _write(os.path.join(self.level.directory, "memory.high"), "max")
        _write(os.path.join(self.level.directory, "cgroup.freeze"), "0")


def cannot_start(fence: Fence | None, program: str) -> str | None:
    """Why a program that was not executed yet never will be: it stands at the line already."""
    if fence is None or not fence.reached():
        return None
    return f"a budget of {fence.budget} bytes cannot even hold the program's start: {program}"


def held_at(budget: int) -> int:
    """On v2: where memory.high holds the command, a little below where memory.max kills it."""
    return budget - min(V2_MARGIN, int(budget * V2_MARGIN_SHARE))


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def build(run: str, budget: int, placement: cgroup.Placement | None = None) -> tuple[Fence | None, str]:
    """A fence for this budget, or None and why not."""
    own = (placement or cgroup.placement()).own
    if own is None:
        return None, "no memory cgroup is mounted here"
    try:
        if own.version == 2:
            _make_room(own)
        directory = os.path.join(own.directory, f"keepfit-{run}")
        os.mkdir(directory)
    except OSError as error:
        return None, f"no cgroup of our own can be made below {own.path} ({error.strerror})"
    level = Level(directory, own.path.rstrip("/") + f"/keepfit-{run}", own.version)
    try:
        return FenceV1(level, budget) if own.version == 1 else FenceV2.create(level, budget), ""
    except OSError as error:
        os.rmdir(directory)
        return None, f"the cgroup below {own.path} does not take a memory limit ({error.strerror})"


def post_keeper(made: Fence) -> int | None:
    """A process that waits for all the others of keepfit to be gone, and then opens the fence.

    A v1 fence freezes the command at its limit until somebody acts. If front and judge are killed together
    nobody would, for ever.
    """
    watched, _held = os.pipe2(os.O_CLOEXEC)  # the other end stays open in front and judge, and nowhere else
    try:
        pid = os.fork()
    except OSError:
        return None
    if pid:
        os.close(watched)
        return pid
    try:
        os.setsid()
        posture.be_called("keepfit-keeper")
        posture.ignore_terminal_signals()
        os.dup2(watched, 3)
        os.closerange(4, 4096)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)
        os.read(3, 1)
        made.let_go()
        while made.level.members:  # nobody else is left to take the cgroup away
            time.sleep(1)
        made.remove()
    except BaseException:
        pass  # the fence is gone already, which is as good
    finally:
        os._exit(0)
    return None


def _make_room(own: Level) -> None:
    """Have the memory controller below `own`.

    v2 forbids processes beside controlled children (but in the root). Where the cgroup is ours alone we step
    aside into a leaf; whoever else lives there is not ours to move.
    """
    subtree = os.path.join(own.directory, "cgroup.subtree_control")
    if b"memory" in (procfs.read_bytes(subtree) or b"").split():
        return
    try:
        _write(subtree, "+memory")
        return
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
    if set(own.members) != {os.getpid()}:
        raise OSError(errno.EBUSY, "other processes live in it")
    leaf = os.path.join(own.directory, "keepfit-supervisor")
    os.makedirs(leaf, exist_ok=True)
    _write(os.path.join(leaf, "cgroup.procs"), "0")
    _write(subtree, "+memory")


def unit_name(run: str) -> str:
    return f"keepfit-{run}.scope"


def by_systemd(run: str, budget: int, environment: Mapping[str, str]) -> list[str] | None:
    """A command prefix that has the user's systemd make the scope; only where that was seen to work."""
    import shutil

    runtime = environment.get("XDG_RUNTIME_DIR")
    program = shutil.which("systemd-run", path=environment.get("PATH"))
    if not program or not runtime or not os.path.exists(os.path.join(runtime, "systemd", "private")):
        return None
    scope = [program, "--user", "--scope", "--quiet", "--collect"]
    if bounded.output([*scope, "--", "true"], SYSTEMD_SECONDS) is None:
        return None
    return [
        *scope,
        f"--unit={unit_name(run)}",
        f"--property=MemoryMax={budget}",
        f"--property=MemoryHigh={held_at(budget)}",
        "--property=MemorySwapMax=0",
        "--",
    ]


def adopt(pid: int, run: str, budget: int) -> Fence | None:
    """The scope that systemd made around the command, once it is there: exactly that one, never another."""
    own = cgroup.placement(pid).own
    if own is None or own.version != 2 or os.path.basename(own.path) != unit_name(run):
        return None
    try:
        return FenceV2(own, budget)
    except OSError:
        return None
