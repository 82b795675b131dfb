"""Printing what was measured, beside what was wanted."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence

from keepfit.report import tables


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> None:
    print(f"## {title}")
    print(tables.render(header, [[str(cell) for cell in row] for row in rows], width=160))
    if note:
        print(note)
    print(f"({platform.machine()}, Linux {platform.release()}, Python {platform.python_version()})", flush=True)


def verdict(ok: bool) -> str:
    return "yes" if ok else "NO"


def median_with_bound(values: Sequence[float], rounds: int = 2000) -> tuple[float, float, float]:
    """The median, and the bootstrap 95 % bounds of the median."""
    import random

    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(rounds))
    return statistics.median(values), medians[int(rounds * 0.025)], medians[int(rounds * 0.975)]
