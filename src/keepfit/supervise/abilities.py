"""What this machine lets us see and do, each with what would let us see more."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..blackbox.rundir import RunDirectory
from ..conditions.reading import size
from ..machine import cgroup, disk, gpu, kernel_log, limits, pidfd, pressure, procfs
from ..quick import dataclass
from . import fence

MIB = 1 << 20


@dataclass(frozen=True)
class Ability:
    """One thing we may or may not be able to do here."""

    name: str
    ok: bool
    says: str
    change: str = ""  # what to do about it, when it is not


def examine(environment: Mapping[str, str], runs: Path) -> Iterator[Ability]:
    placement = cgroup.placement()
    yield _limit(placement, environment)
    yield _cgroups(placement)
    yield _exact_line(placement, environment)
    yield _kernel_log()
    yield _pressure()
    yield _swap()
    yield _exit_of_others()
    yield _oom_score()
    yield _stacks()
    yield _runs(runs)
    yield from _space(runs, environment)
    yield _files()
    yield _gpus()


def _limit(placement: cgroup.Placement, environment: Mapping[str, str]) -> Ability:
    limit = limits.effective(placement, environment)
    if limit is None:
        return Ability("memory limit", False, "not known: /proc/meminfo is not readable", "mount /proc")
    return Ability("memory limit", True, f"{size(limit.bytes)}, by {limit.source}")


def _cgroups(placement: cgroup.Placement) -> Ability:
    own = placement.own
    if own is None:
        return Ability(
            "memory cgroups",
            False,
            "none mounted",
            "mount cgroup2; without it an OOM kill is proven by the kernel log only",
        )
    return Ability("memory cgroups", True, f"v{own.version}, {len(placement.levels)} levels, own {own.path}")


def _exact_line(placement: cgroup.Placement, environment: Mapping[str, str]) -> Ability:
    made, why = fence.build(f"doctor-{os.getpid()}", 64 * MIB, placement)
    if made is not None:
        made.remove()
        return Ability("exact danger line", True, f"a cgroup of our own can be made ({made.how})")
    if fence.by_systemd("doctor", 64 * MIB, environment):
        return Ability("exact danger line", True, "the user's systemd can make a scope (systemd-run --user --scope)")
    change = "run as root, in a delegated cgroup, or where `systemd-run --user --scope` works"
    return Ability("exact danger line", False, f"{why}; --memory is held by sampling", change)


def _kernel_log() -> Ability:
    log = kernel_log.KernelLog()
    if log.fileno() is not None:
        log.close()
        ours = procfs.in_first_pid_namespace()
        says = (
            "/dev/kmsg is readable"
            if ours
            else "/dev/kmsg is readable, but names the host's pids, not this container's"
        )
        return Ability(
            "kernel log",
            ours,
            says,
            "" if ours else "run with the host's pid namespace (docker run --pid=host)",
        )
    if kernel_log.from_journal(0) is not None:
        return Ability("kernel log", True, "through journalctl")
    change = "sysctl kernel.dmesg_restrict=0, the group adm or systemd-journal, or docker run --device /dev/kmsg"
    return Ability("kernel log", False, f"not readable ({log.why_not})", change)


def _pressure() -> Ability:
    if pressure.read("memory") is None:
        return Ability("pressure (PSI)", False, "switched off in this kernel", "boot with psi=1")
    return Ability("pressure (PSI)", True, "memory, io and cpu")


def _swap() -> Ability:
    total = procfs.meminfo().get("SwapTotal", 0)
    return Ability(
        "swap",
        True,
        f"{size(total)} of swap" if total else "none: memory that runs out is a kill, not thrash",
    )


def _exit_of_others() -> Ability:
    child = os.fork()
    if child == 0:
        os._exit(7)
    fd = pidfd.open_pid(child)
    os.waitpid(child, 0)
    known = pidfd.exit_of(fd) if fd is not None else None
    if fd is not None:
        os.close(fd)
    if known is not None and known.status == 7:
        return Ability("exit status of others", True, "by pidfd: `watch PID` tells how it ended")
    return Ability(
        "exit status of others", False, "`watch PID` sees that, but not how, it ended", "Linux 6.15 or later"
    )


def _oom_score() -> Ability:
    try:
        with open("/proc/self/oom_score_adj") as file:
            before = file.read()
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("-900")
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(before)
    except OSError:
        return Ability(
            "shy from the OOM killer",
            False,
            "our own score cannot be lowered",
            "grant CAP_SYS_RESOURCE (root in a container often lacks it)",
        )
    return Ability("shy from the OOM killer", True, "oom_score_adj can be lowered")


def _stacks() -> Ability:
    return Ability("Python stacks", True, "by signal, into the record (not with python -I, -E or -S)")


def _runs(runs: Path) -> Ability:
    try:
        runs.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=runs, prefix=".doctor-") as place:
            RunDirectory(Path(place)).size()
    except OSError as error:
        return Ability(
            "runs directory", False, f"{runs}: {error.strerror}", "choose another: --runs-dir or KEEPFIT_RUNS"
        )
    return Ability("runs directory", True, str(runs))


def _space(runs: Path, environment: Mapping[str, str]) -> Iterator[Ability]:
    for place in disk.free_space(disk.places(os.getcwd(), str(runs), environment)):
        enough = place.free > 64 * MIB
        says = f"{size(place.free)} free of {size(place.total)} ({place.path})"
        yield Ability(f"space: {place.role}", enough, says, "" if enough else "free some space")


def _files() -> Ability:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Ability("open files", soft >= 1024, f"{soft} (hard limit {hard})", "" if soft >= 1024 else "ulimit -n 65536")


def _gpus() -> Ability:
    if not gpu.driver_loaded():
        return Ability("GPUs", True, "none to see: no NVIDIA driver is loaded")
    found = gpu.snapshot()
    if found is None:
        return Ability("GPUs", False, "the driver does not answer within 3 s", "nvidia-smi; a reboot may be needed")
    names = ", ".join(f"{device['name']} ({size(device['total_bytes'])})" for device in found)
    return Ability("GPUs", bool(found), names or "the driver is loaded, but NVML shows no device")
