"""How sharp the largest batch is: the same size, again and again, in a cgroup of the same limit.

`bench largest` takes a size for one that fits when it has run twice; in its older rows (docs/rows), once. Here it is
seen how often it runs, and how often what the plan had found does (the training itself, in fresh processes, with
nothing of keepfit in them), for as many steps as one likes (BENCH_STEPS). BENCH_FOUND names other rows of `bench
largest`.
"""

from __future__ import annotations

import csv
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import stage

from . import tables
from .largest import STEPS, fits
from .rows import Rows

FOUND = Path(os.environ.get("BENCH_FOUND", Path(__file__).parent.parent / "docs" / "rows" / "largest.csv"))
BUDGETS = os.environ.get("BENCH_BUDGETS", "1536").split(",")
EACH = int(os.environ.get("BENCH_EACH", "4"))
HEADER = ("model", "budget MiB", "found", "ran", "0.95 of the largest", "ran", "the largest that ran once", "ran")


def main() -> None:
    if why := stage.why_no_cgroup():
        sys.exit(f"bench sharpness: {why}")
    rows = Rows(HEADER)
    with open(FOUND, newline="") as source:
        for name, budget, largest, found, *_ in list(csv.reader(source))[1:]:
            if budget in BUDGETS and not rows.have(name, int(budget)):
                rows.add(_one(name, int(budget), int(largest), int(found)))
    ran, of = (sum(int(str(row[place]).split(" of ")[part]) for row in rows for place in (3, 5, 7)) for part in (0, 1))
    tables.show(
        "how sharp the largest batch is", HEADER, rows, f"{ran} of {of} ran for {STEPS} steps; each size {EACH} times"
    )


def _one(name: str, budget: int, largest: int, found: int) -> list[object]:
    sizes = [found, int(0.95 * largest), largest]
    with ThreadPoolExecutor(2) as pool:  # in turns, two at a time
        ran = list(pool.map(lambda size: fits(name, size, budget << 20), sizes * EACH))
    told = [[size, f"{sum(ran[place :: len(sizes)])} of {EACH}"] for place, size in enumerate(sizes)]
    return [name, budget, *told[0], *told[1], *told[2]]


if __name__ == "__main__":
    main()
