"""The run directory: one per run, mode 0700, holding all that is known about it.

journal.jsonl   events, findings, attempts
ring            samples and heartbeats
stdout, stderr  the last 256 KiB of each
stacks/         Python stacks of a hang or a fatal signal
checkpoints/    saved states of the training
batches/        batches whose step was not finite, and the weights they met
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


def default_runs_directory(environment: Mapping[str, str]) -> Path:
    """`$KEEPFIT_RUNS`, else `$XDG_STATE_HOME/keepfit/runs`, else `~/.local/state/keepfit/runs`."""
    if chosen := environment.get("KEEPFIT_RUNS"):
        return Path(chosen).expanduser()
    state = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state, "keepfit", "runs")


def new_id(now: float | None = None) -> str:
    """Sorts by time, reads as a date, and is unique: `20261115-031502-k7f3`.

    The first two letters are the part of the second, so that runs of the same second sort too.
    """
    now = time.time() if now is None else now
    base = len(_ALPHABET)
    high, low = divmod(int(now % 1 * base * base), base)
    suffix = _ALPHABET[high] + _ALPHABET[low] + secrets.choice(_ALPHABET) + secrets.choice(_ALPHABET)
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(now)) + "-" + suffix


class RunDirectory:
    """Paths of one run's record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, runs: Path) -> RunDirectory:
        runs.mkdir(parents=True, exist_ok=True, mode=0o700)
        for _ in range(8):
            path = runs / new_id()
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                continue
            run = cls(path)
            run.stacks.mkdir(mode=0o700)
            return run
        raise FileExistsError(f"no free run id under {runs}")

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def journal(self) -> str:
        return str(self.path / "journal.jsonl")

    @property
    def ring(self) -> str:
        return str(self.path / "ring")

    @property
    def stdout(self) -> str:
        return str(self.path / "stdout")

    @property
    def stderr(self) -> str:
        return str(self.path / "stderr")

    @property
    def stacks(self) -> Path:
        return self.path / "stacks"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def batches(self) -> Path:
        return self.path / "batches"

    def size(self) -> int:
        """Bytes on disk."""
        total = 0
        for directory, _, names in os.walk(self.path):
            for name in names:
                try:
                    total += os.lstat(os.path.join(directory, name)).st_blocks * 512
                except OSError:
                    continue
        return total


def all_runs(runs: Path) -> list[RunDirectory]:
    """Every directory that holds a journal, oldest first."""
    try:
        names = sorted(os.listdir(runs))
    except OSError:
        return []
    return [RunDirectory(runs / name) for name in names if (runs / name / "journal.jsonl").is_file()]
