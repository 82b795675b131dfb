"""Every family in budgets of 30 to 90 % of what it needs: does it finish, how often was it started again?

Feasible is what an independent oracle says: plain Keras with a batch of one row, in a cgroup of that size.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import stage

from . import tables

SHARES = [int(word) / 100 for word in os.environ.get("BENCH_SHARES", "30,40,50,70,90").split(",")]
MODELS = os.environ.get("BENCH_MODELS", "conv,conv_bn,mobilenet,transformer,lstm,unet,mlp").split(",")
STEPS = int(os.environ.get("BENCH_STEPS", "4"))
ROWS = os.environ.get("BENCH_ROWS", "")  # a CSV file for the raw rows


def main() -> None:
    if why := stage.why_no_cgroup():
        sys.exit(f"bench budgets: {why}")
    rows = []
    for name in MODELS:
        need = _need(name)
        for share in SHARES:
            rows.append(_one(name, need, share))
            print(*rows[-1], sep="  ", flush=True)
    feasible = [row for row in rows if row[4] == "yes"]
    died = [row for row in feasible if row[5] != "finished"]
    kills = sum(int(row[8]) for row in rows)
    calm = sum(row[7] == 0 for row in feasible)
    note = (
        f"feasible {len(feasible)}, finished {len(feasible) - len(died)}; without a restart {calm}; "
        f"most restarts {max((int(row[7]) for row in feasible), default=0)}; kernel OOM kills {kills}"
    )
    header = (
        "model",
        "need MiB",
        "share",
        "budget",
        "feasible",
        "outcome",
        "micro-batch",
        "restarts",
        "kills",
        "seconds",
    )
    tables.show("budgets", header, rows, note)
    if ROWS:
        with open(ROWS, "w", newline="") as file:
            csv.writer(file).writerows([header, *rows])


def _script(name: str, batch: int, steps: int) -> list[str]:
    return [sys.executable, "-m", "bench.train", name, str(batch), str(steps)]


def _need(name: str) -> int:
    done = subprocess.run(_script(name, 0, 3), capture_output=True, text=True, env=_environment(), check=False)
    found = re.search(r"^peak (\d+)", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(done.stderr[-2000:])
    return int(found[1])


def _one(name: str, need: int, share: float) -> list[object]:
    budget = int(need * share)
    with stage.memory_cgroup(budget) as directory:
        command = [*stage.entering(directory), *_script(name, 1, 3)]
        oracle = subprocess.run(command, capture_output=True, env=_environment(), check=False).returncode == 0
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        runs = Path(folder)
        done = subprocess.run(
            [*stage.KEEPFIT, "run", "--memory", str(budget), "--", *_script(name, 0, STEPS)],
            capture_output=True, text=True, env=stage.clean_environment(runs), check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
        outcome = stage.Outcome(done.returncode, done.stdout, done.stderr, runs)
        verdict = outcome.why()
        decided = [e for e in outcome.events("splitting") if not e.get("trial")]
        kills = sum(_kills(outcome.events(name)) for name in ("deathbed",))
    batch = f"{decided[-1]['rows']} of {decided[-1]['batch']}" if decided else "-"
    ended = verdict["cause"] if verdict["outcome"] != "finished" else "finished"
    attempts = len(verdict["attempts"]) - 1
    return [name, need >> 20, f"{share:.0%}", budget >> 20, "yes" if oracle else "no", ended, batch, attempts, kills,
            round(seconds)]  # fmt: skip


def _kills(events: list[dict[str, object]]) -> int:
    """Of our own fence: the innermost level."""
    total = 0
    for event in events:
        counters = event.get("counters") or [{}]
        total += int(counters[0].get("oom_kill") or 0)  # type: ignore[index]
    return total


def _environment() -> dict[str, str]:
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


if __name__ == "__main__":
    main()
