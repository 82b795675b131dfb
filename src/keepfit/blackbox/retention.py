"""Old runs go, by count and by bytes; one that still runs never does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..quick import dataclass
from . import index
from .rundir import RunDirectory

KEEP_RUNS = 200
KEEP_BYTES = 2 << 30


@dataclass(frozen=True)
class Policy:
    runs: int = KEEP_RUNS
    bytes: int = KEEP_BYTES

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Policy:
        """`KEEPFIT_KEEP_RUNS` and `KEEPFIT_KEEP_BYTES`, where they are numbers."""

        def number(name: str, default: int) -> int:
            value = environment.get(name, "")
            return int(value) if value.isdigit() else default

        return cls(number("KEEPFIT_KEEP_RUNS", KEEP_RUNS), number("KEEPFIT_KEEP_BYTES", KEEP_BYTES))


def surplus(sizes: Sequence[tuple[str, int]], policy: Policy) -> list[str]:
    """Ids to remove, given (id, bytes) oldest first. The newest is always kept."""
    kept = 0
    total = 0
    removed: list[str] = []
    for run, size in reversed(sizes):
        fits = kept < policy.runs and total + size <= policy.bytes
        if kept == 0 or (fits and not removed):
            kept += 1
            total += size
        else:
            removed.append(run)
    return removed[::-1]


def apply(runs: Path, policy: Policy, is_needed: Callable[[RunDirectory], bool]) -> list[str]:
    """Remove surplus runs; returns their ids."""
    present = index.rows(runs)
    doomed = []
    for run_id in surplus([(row.id, row.bytes) for row in present], policy):
        run = RunDirectory(runs / run_id)
        if not is_needed(run):
            run.remove()
            doomed.append(run_id)
    if doomed:
        index.forget(runs, doomed)
    return doomed
