"""How sharp the largest batch is: the same size, again and again, in a cgroup of the same limit.

`bench largest` takes a size for one that fits when it has run once. Here it is seen how often it runs.
"""

from __future__ import annotations

import csv
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import stage

from . import tables
from .largest import fits

FOUND = Path(__file__).parent.parent / "docs" / "rows" / "largest.csv"
CASES = os.environ.get("BENCH_CASES", "encoder:2048,MobileNetV2:1536,lstm:1536,wavenet:1024").split(",")
SHARES = (0.95, 1.0)  # of the largest that ran once
EACH = int(os.environ.get("BENCH_EACH", "6"))
HEADER = ("model", "budget MiB", "largest that ran", *(f"{share:.2f} of it ran" for share in SHARES))


def main() -> None:
    if why := stage.why_no_cgroup():
        sys.exit(f"bench sharpness: {why}")
    with open(FOUND, newline="") as source:
        largest = {f"{row[0]}:{row[1]}": int(row[2]) for row in list(csv.reader(source))[1:]}
    rows = [_one(*case.split(":"), largest[case]) for case in CASES]
    tables.show("how sharp the largest batch is", HEADER, rows, f"each size {EACH} times, two at a time")


def _one(name: str, budget: str, largest: int) -> list[object]:
    sizes = [int(share * largest) for share in SHARES] * EACH  # in turns
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda size: fits(name, size, int(budget) << 20), sizes))
    told = [f"{sum(ran[place :: len(SHARES)])} of {EACH}" for place in range(len(SHARES))]
    return [name, budget, largest, *told]


if __name__ == "__main__":
    main()
