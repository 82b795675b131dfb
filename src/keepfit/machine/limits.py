"""The effective memory limit: the smallest of all that can bind, with the name of the one that does."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterable, Mapping

from ..facts import MemoryLimit
from . import cgroup, procfs

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])i?)?b?", re.IGNORECASE)

MOST = float(1 << 60)  # bytes that anybody could mean
LEAST_BUDGET = 1 << 16  # below it a plain number was not meant as bytes
MOST_GIB = 1 << 12  # of which somebody may have forgotten the unit

# Kept back from the host's memory: below this the kernel itself is in trouble, and so is the desktop.
HOST_RESERVE_SHARE = 0.01
# The downward API may write MiB instead of bytes: no pod that trains has less than this.
PLAUSIBLE = 64 << 20


def parse_size(text: str) -> int:
    """`3GiB`, `512M`, `1.5g`, `2Gi`, `1000000` as bytes. `GB` is read as people mean it here: 2**30."""
    match = _SIZE.fullmatch(text.strip())
    bytes_of_it = float(match[1]) * _UNITS[(match[2] or "").lower()] if match else 0.0
    if not 1 <= bytes_of_it < MOST:
        raise ValueError(f"a size was expected, such as 3GiB or 512M; received {text[:40]!r}")
    return int(bytes_of_it)


def parse_budget(text: str) -> int:
    """The same of memory that something is to live in: a few bytes are a unit that was forgotten."""
    found, plain = parse_size(text), text.strip()
    if found < LEAST_BUDGET and plain[-1].isdigit():
        meant = f"; did you mean {plain}GiB?" if found < MOST_GIB else ""
        raise ValueError(f"a size was expected, such as 3GiB or 512M; received {plain[:40]!r}, which is bytes{meant}")
    return found


def host_limit(proc: str = "/proc", own_use: int = 0) -> MemoryLimit | None:
    """What the host can still give: free and reclaimable memory plus what the tree itself holds."""
    info = procfs.meminfo(proc)
    if "MemTotal" not in info:
        return None
    available = info.get("MemAvailable", info.get("MemFree", 0))
    reserve = int(info["MemTotal"] * HOST_RESERVE_SHARE)
    return MemoryLimit(max(0, available + own_use - reserve), "host memory that can still be had", "host")


def cgroup_limits(placement: cgroup.Placement, own_use: int = 0) -> Iterable[MemoryLimit]:
    """Every level's limit, less what others use at that level."""
    for level in placement.levels:
        limit = level.limit
        if limit is None:
            continue
        others = max(0, (level.use or 0) - own_use)
        name = f"cgroup {level.path} ({'memory.limit_in_bytes' if level.version == 1 else 'memory.max'})"
        if others > limit // 50:
            name += f", {others / 2**20:.0f} MiB of it used by others"
        yield MemoryLimit(max(0, limit - others), name, "cgroup", level.path)


def rlimits() -> Iterable[MemoryLimit]:
    for which, name in (
        (resource.RLIMIT_AS, "RLIMIT_AS (ulimit -v)"),
        (resource.RLIMIT_DATA, "RLIMIT_DATA (ulimit -d)"),
    ):
        soft, _ = resource.getrlimit(which)
        if soft != resource.RLIM_INFINITY:
            yield MemoryLimit(soft, name, "rlimit")


def promises(environment: Mapping[str, str], podinfo: str = "/etc/podinfo") -> Iterable[MemoryLimit]:
    """What a scheduler promised: Slurm's allocation, Kubernetes' downward API.

    Slurm writes megabytes, and 0 for "the whole node". Kubernetes tells a pod its own limit only where
    the pod asks (an environment variable or a file from the downward API); the names are the usual ones.
    """

    def number(name: str) -> int:
        value = environment.get(name, "")
        return int(value) if value.isdigit() else 0

    if per_node := number("SLURM_MEM_PER_NODE"):
        yield MemoryLimit(per_node << 20, "Slurm (SLURM_MEM_PER_NODE)", "scheduler")
    elif per_cpu := number("SLURM_MEM_PER_CPU"):
        cpus = number("SLURM_CPUS_ON_NODE") or number("SLURM_CPUS_PER_TASK") or 1
        yield MemoryLimit((per_cpu * cpus) << 20, f"Slurm (SLURM_MEM_PER_CPU x {cpus})", "scheduler")
    elif per_gpu := number("SLURM_MEM_PER_GPU"):
        gpus = number("SLURM_GPUS_ON_NODE") or 1
        yield MemoryLimit((per_gpu * gpus) << 20, f"Slurm (SLURM_MEM_PER_GPU x {gpus})", "scheduler")

    if "KUBERNETES_SERVICE_HOST" in environment:
        for name in ("MEMORY_LIMIT", "MEM_LIMIT", "POD_MEMORY_LIMIT"):
            if (limit := number(name)) >= PLAUSIBLE:
                yield MemoryLimit(limit, f"Kubernetes ({name})", "scheduler")
        for name in ("mem_limit", "memory_limit", "limits.memory"):
            text = procfs.read_bytes(os.path.join(podinfo, name)) or b""
            if text.strip().isdigit() and int(text) >= PLAUSIBLE:
                yield MemoryLimit(int(text), f"Kubernetes ({podinfo}/{name})", "scheduler")


def effective(
    placement: cgroup.Placement,
    environment: Mapping[str, str],
    budget: int | None = None,
    own_use: int = 0,
    proc: str = "/proc",
) -> MemoryLimit | None:
    """The smallest limit of all, or None on a machine that tells nothing."""
    candidates = [*cgroup_limits(placement, own_use), *rlimits(), *promises(environment)]
    host = host_limit(proc, own_use)
    if host is not None:
        candidates.append(host)
    if budget is not None:
        candidates.append(MemoryLimit(budget, "--memory", "budget"))
    return min(candidates, key=lambda limit: limit.bytes, default=None)
