"""The scene before and after: the counters, limits and logs that prove a cause when compared."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ..facts import MemoryLimit, OomCounters, as_json
from ..machine import cgroup, disk, kernel_log, limits, pressure, procfs
from ..machine.tree import ProcessTree
from ..quick import dataclass


@dataclass
class Scene:
    """What was true just before the command started."""

    placement: cgroup.Placement
    counters: tuple[OomCounters, ...]
    limit: MemoryLimit | None
    kernel: kernel_log.KernelLog
    places: Mapping[str, str]
    network: Mapping[str, int]
    wall: float
    shared: bool  # others lived in our cgroup before the command came: its counters may be about them
    open_files_limit: int | None  # the command's
    lacked: list[str]


def cwd() -> str:
    """The working directory, also when somebody has removed it."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def before(
    placement: cgroup.Placement, budget: int | None, runs: str, environment: Mapping[str, str], files: int | None = None
) -> Scene:
    kernel = kernel_log.KernelLog()
    own = placement.own
    return Scene(
        placement=placement,
        counters=tuple(level.counters() for level in placement.levels),
        limit=limits.effective(placement, environment, budget),
        kernel=kernel,
        places=disk.places(cwd(), runs, environment),
        network=pressure.network_errors(),
        wall=time.time(),
        shared=bool(own is not None and set(own.members) - {os.getpid()}),
        open_files_limit=files,
        lacked=[],
    )


def opening(scene: Scene, budget: int | None = None, fence: str | None = None) -> dict[str, Any]:
    """The scene as the `scene` event carries it, right behind that of the attempt: whoever dies next, it is there."""
    return {
        "budget": budget,
        "fence": fence,
        "limit": as_json(scene.limit) if scene.limit else None,
        "counters": [as_json(counters) for counters in scene.counters],
        "kernel_readable": scene.kernel.fileno() is not None,
        "kernel_pids_are_ours": procfs.in_first_pid_namespace(),
        "shares_cgroup": scene.shared,
        "open_files_limit": scene.open_files_limit,
        "lacked": list(scene.lacked),
    }


def closing(scene: Scene, tree: ProcessTree) -> dict[str, Any]:
    """The scene after the death, as the `deathbed` event carries it."""
    lacked = list(scene.lacked)
    lines = scene.kernel.new_lines()
    if scene.kernel.fileno() is None:
        found = kernel_log.from_journal(scene.wall)
        if found is None:
            lacked.append(f"kernel log not readable ({scene.kernel.why_not})")
        lines = list(found or ())
    network = pressure.network_errors()
    return {
        "counters": [as_json(level.counters()) for level in scene.placement.levels],
        "kernel_lines": lines,
        "disks": [as_json(place) for place in disk.free_space(scene.places, seconds=0.3)],
        "network_errors": {
            name: count - scene.network.get(name, 0)
            for name, count in network.items()
            if count > scene.network.get(name, 0)
        },
        "child_deaths": [as_json(death) for death in tree.deaths[-64:]],
        "lacked": lacked,
    }
