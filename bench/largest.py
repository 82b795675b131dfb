"""The largest batch that fits: what `keepfit plan` finds in two trials, beside the truth and two usual ways to find it.

Both are of a training of so many steps (BENCH_STEPS): its peak still rises with them. The truth is found in cgroups of
the budget's size, where a batch fits if it runs each of two times: of single draws a larger one may run where a smaller
one was killed, and the largest would be the luckiest. It is known to BENCH_EXACT (0.02), and is the upper end of that,
so that no share is flattered. Or it is taken from the rows of an earlier run (BENCH_TRUTH names their file). *Trials*:
fresh processes, one of which may try some sizes behind one another. *At the limit*: sizes whose trial had to be ended
there; *OOM*: what the kernel has killed meanwhile, by its own count. The two usual ways are reckoned against the truth:
a size fits if it is not larger. *x 0.9*: down from the first power of two that fails.
*doubling*: up from 1, then halving, to 2 %.
With malloc's settings in the environment, the plan and the truth are of trainings with them.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests import stage

from . import tables
from .forecast import planned
from .forecast_models import REPORTED, TUNING
from .rows import Rows

MODELS = os.environ.get(
    "BENCH_MODELS", "plain_conv,encoder,lstm,two_tower,unet,MobileNetV2,gru,autoencoder,conv1d,wavenet"
).split(",")
BUDGETS = [int(word) for word in os.environ.get("BENCH_BUDGETS", "1024,1536,2048").split(",")]  # MiB
STEPS = int(os.environ.get("BENCH_STEPS", "32"))
EXACT = float(os.environ.get("BENCH_EXACT", "0.02"))
DRAWS = 2
HELD = 128 << 20  # bytes of data, the same whatever the batch, with some batches of the largest size in it
HEADER = ("model", "budget MiB", "true largest", "found", "share", "trials", "at the limit", "OOM", "x 0.9: share",
          "trials", "OOM", "doubling: share", "trials", "OOM")  # fmt: skip


def main() -> None:
    if why := stage.why_no_cgroup():
        sys.exit(f"bench largest: {why}")
    rows = Rows(HEADER)
    for name in MODELS:
        for budget in BUDGETS:
            if not rows.have(name, budget):
                rows.add(_one(name, budget))
    feasible = [row for row in rows if row[2]]
    shares = [float(str(row[4])) for row in feasible]  # infeasible ones have no share, and count for trials and OOM
    more = sum(share > 1 for share in shares)  # said to fit, and does not each time
    trials, at_limit, killed = ([int(str(row[place])) for row in rows] for place in (5, 6, 7))
    note = (
        f"found: least {min(shares):.3f}, median {statistics.median(shares):.3f} of the true largest (wanted ≥ 0.95); "
        f"{sum(share >= 0.95 for share in shares)} of {len(shares)} are; most trials {max(trials)} (≤ 2); "
        f"at the limit {sum(at_limit)}; OOM {sum(killed)} (0); more than the true largest: {more} (0)"
    )
    tables.show(f"the largest batch, {STEPS} steps", HEADER, rows, note)


def _one(name: str, budget: int) -> list[object]:
    usual = {**TUNING, **REPORTED}[name][1]
    killed = _killed()
    told, complaint = planned(_command(name, usual), *_search(budget), environment={"BENCH_HELD": str(HELD)})
    killed = _killed() - killed
    found = int(told["largest_batch"] or 0) if told else 0
    true = _known(name, budget)
    if true is None:  # what was found is the first that is looked at
        true = _truth(name, budget << 20, found or _promised(told, budget << 20) or usual)
    if told is None:
        return [name, budget, true, complaint, 0, 0, 0, killed, *[""] * 6]
    tried = " ".join(f"{one['rows']}:{one['peak_bytes'] >> 20}" for one in told["tried"])
    print(f"{name} in {budget} MiB tried {tried} (rows:MiB), of {true}", file=sys.stderr, flush=True)
    searched = [int(told["trials"]), told["overshot"], killed]  # beside the two small ones, which are the forecast's
    if not true:  # not even a single row fits
        return [name, budget, 0, found, "", *searched, *[""] * 6]
    return [name, budget, true, found, f"{found / true:.3f}", *searched, *_backed_off(true), *_doubled(true)]


def _search(budget: int) -> tuple[str, ...]:
    """Until it has found what it can: how long that takes is no part of what is measured."""
    return "--memory", f"{budget}MiB", "--search-for", "36000"


def _killed() -> int:
    """Processes that the kernel has killed for want of memory since it was started."""
    counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counters["oom_kill"])


def _known(name: str, budget: int) -> int | None:
    """The truth, where an earlier run has found it."""
    if not (earlier := os.environ.get("BENCH_TRUTH")):
        return None
    with open(earlier, newline="") as source:
        return next((int(row[2]) for row in csv.reader(source) if row[:2] == [name, str(budget)]), None)


def _command(name: str, batch: int) -> list[str]:
    return [sys.executable, "-m", "bench.forecast_models", name, str(batch), "adam", "arrays", str(STEPS)]


def fits(name: str, batch: int, budget: int) -> bool:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "BENCH_HELD": str(HELD)}
    with stage.memory_cgroup(budget) as directory:
        command = [*stage.entering(directory), *_command(name, batch)]
        return subprocess.run(command, capture_output=True, env=environment, check=False).returncode == 0


def _promised(told: Mapping[str, Any] | None, budget: int) -> int:
    """Where the line through what was tried comes to the budget; 0: there is none."""
    tried = sorted((one["rows"], one["peak_bytes"]) for one in told["tried"]) if told else []
    if len(tried) < 2 or tried[-1][1] <= tried[0][1]:
        return 0
    (few, less), (many, more) = tried[0], tried[-1]
    return max(1, many + int((budget - more) * (many - few) / (more - less)))


def _truth(name: str, budget: int, near: int) -> int:
    """The largest batch that may run in a cgroup of that size each time: one less than the smallest that was killed.

    0 where not even a single row runs. Looked for from `near` on: whether a size fits does not depend on where it is
    looked for.
    """
    low, high, step = 0, 0, EXACT  # the largest that ran, the smallest above it that did not; 0: none so far
    with ThreadPoolExecutor(DRAWS) as pool:
        while size := _next_size(low, high, near, step):
            ran = sum(pool.map(lambda size: fits(name, size, budget), [size] * DRAWS))
            print(f"{name} in {budget >> 20} MiB: {size} rows ran {ran} of {DRAWS}", file=sys.stderr, flush=True)
            low, high = (size, high) if ran == DRAWS else (low, size)
            step = min(0.3, 2 * step)
    return high - 1


def _next_size(low: int, high: int, near: int, step: float) -> int:
    """The size to try: away from what is known in growing steps, then half-way; 0: it is known closely enough."""
    if low and high:
        return (low + high) // 2 if high - low > max(1, EXACT * high) else 0
    if high:
        return min(high - 1, int((1 - step) * high))
    return max(low + 1, int((1 + step) * low)) if low else near


def _backed_off(true: int) -> tuple[str, int, int]:
    size, failed = 1, 0
    while size <= true:
        size *= 2
    while size > true:
        size, failed = max(1, int(0.9 * size)), failed + 1
    return f"{size / true:.3f}", failed + 1, failed


def _doubled(true: int) -> tuple[str, int, int]:
    low, high, trials, failed = 0, 1, 1, 1
    while high <= true:
        low, high, trials = high, 2 * high, trials + 1
    while high - low > max(1, EXACT * high):
        middle, trials = (low + high) // 2, trials + 1
        if middle <= true:
            low = middle
        else:
            high, failed = middle, failed + 1
    return f"{low / true:.3f}", trials, failed


if __name__ == "__main__":
    main()
