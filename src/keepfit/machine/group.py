"""Whether this process is one of a group that trains together, as its launcher says in the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..quick import dataclass


@dataclass(frozen=True)
class Membership:
    """`rank` from 0; None where only the group is known."""

    size: int | None
    rank: int | None
    source: str  # the variables that say so

    def __str__(self) -> str:
        which = "one" if self.rank is None else f"rank {self.rank}"
        whole = "a group" if self.size is None else str(self.size)
        return f"{which} of {whole} ({self.source})"


# (how many, which one): launchers that say both in plain numbers.
_COUNTED = (
    ("WORLD_SIZE", "RANK"),  # torchrun, and whoever does as it does
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ("SLURM_NTASKS", "SLURM_PROCID"),
    ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID"),
    ("KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID"),
)
_ALONE_IN_A_STEP = "SLURM_STEP_NUM_TASKS"  # says more than the job's number of tasks


def membership(environment: Mapping[str, str]) -> Membership | None:
    """None for a process on its own, a group of one included."""
    for size_name, rank_name in _COUNTED:
        size, rank = _number(environment, size_name), _number(environment, rank_name)
        if size is None or rank is None:
            continue
        if size > 1:
            return Membership(size, rank, f"{rank_name}, {size_name}")
        if size_name == _ALONE_IN_A_STEP:
            break
    return _by_tf_config(environment.get("TF_CONFIG", "")) or _by_coordinator(environment)


def _by_tf_config(text: str) -> Membership | None:
    """Of a chief and workers the chief is the first."""
    try:
        known: Any = json.loads(text or "null")
        cluster, task = known["cluster"], known.get("task") or {}
        kinds = {str(kind): len(hosts) for kind, hosts in cluster.items() if isinstance(hosts, (list, dict))}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    size = sum(kinds.values())
    if size < 2:
        return None
    kind, index = task.get("type"), task.get("index")
    trains = {"chief": 0, "master": 0, "worker": kinds.get("chief", 0) + kinds.get("master", 0)}
    rank = trains[kind] + index if kind in trains and isinstance(index, int) else None
    return Membership(size, rank, "TF_CONFIG")


def _by_coordinator(environment: Mapping[str, str]) -> Membership | None:
    for address, size_name, rank_name in (
        ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"),
        ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID"),
    ):
        size = _number(environment, size_name)
        if environment.get(address) and size != 1:
            return Membership(size, _number(environment, rank_name), address)
    return None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 8 else None
