"""Free space of the directories that matter to a training."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..facts import Disk
from . import bounded


def places(cwd: str, runs: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    found = {"cwd": cwd, "tmp": environment.get("TMPDIR") or "/tmp", "shm": "/dev/shm"}
    if runs:
        found["runs"] = runs
    return found


def free_space(where: Mapping[str, str], seconds: float = 1.0) -> tuple[Disk, ...]:
    """One entry a readable place. A file system that does not answer in time is left out."""
    found = []
    for role, path in where.items():
        answer = bounded.call(lambda path=path: os.statvfs(path), seconds)  # type: ignore[misc]
        if answer is not None:
            found.append(
                Disk(
                    role,
                    path,
                    answer.f_bavail * answer.f_frsize,
                    answer.f_blocks * answer.f_frsize,
                    answer.f_favail if answer.f_files else None,
                )
            )
    return tuple(found)
