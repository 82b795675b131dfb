"""Killed again and again at random moments: is the end the same, bit for bit, as without a single death?

The same as `make test` does with a few kills, here with as many as wanted (BENCH_KILLS, 1000 unless told).
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

from tests.resume import killing

from . import tables

KILLS = int(os.environ.get("BENCH_KILLS", "1000"))
A_RUN = int(os.environ.get("BENCH_KILLS_A_RUN", "20"))
MODELS = os.environ.get("BENCH_MODELS", "cnn,transformer,lstm").split(",")
SOURCES = os.environ.get("BENCH_SOURCES", "arrays,tfdata,pydataset,generator").split(",")
MOMENTS = ("batch-begin", "batch-end", "validation", "epoch-end", "writing")
STEPS, EPOCHS = 13, 12
PATIENCE = 3600.0  # seconds for a run: twenty restarts on a machine that does other things too


def main() -> None:
    draw = random.Random(int(os.environ.get("BENCH_SEED", "1")))
    pairs = [(model, source) for source in SOURCES for model in MODELS]
    rows, total = [], 0
    for model, source in pairs * (1 + KILLS // (A_RUN * len(pairs))):
        if total >= KILLS:
            break
        row = _one(model, source, draw)
        total += int(str(row[2]))
        rows.append(row)
        print(*row, sep="  ", flush=True)
    same = sum(row[4] == "yes" for row in rows)
    header = ("MODEL", "SOURCE", "KILLS", "TWO UNDISTURBED RUNS AGREE", "KILLED AGREES WITH THEM")
    tables.show("killed against untouched", header, rows, f"{total} kills in {len(rows)} runs; {same} runs the same")


def _one(model: str, source: str, draw: random.Random) -> list[object]:
    kind = {"model": model, "source": source, "epochs": EPOCHS}
    deaths: list[list[object]] = []
    for number in range(A_RUN):
        moment = draw.choice(MOMENTS)
        # Counts go on over attempts; what was trained twice counts twice, so all of these moments come.
        share = (number + draw.random()) / A_RUN
        many = {"validation": 3 * EPOCHS, "epoch-end": EPOCHS, "writing": A_RUN}.get(moment, EPOCHS * STEPS)
        deaths.append([moment, 1 + int(share * many)])
    with tempfile.TemporaryDirectory() as folder:
        first = killing.undisturbed(Path(folder, "first"), **kind)
        agree = first == killing.undisturbed(Path(folder, "second"), **kind)
        outcome = killing.killed(Path(folder), ("--restarts", "200"), PATIENCE, deaths=deaths, **kind)
        same = outcome.status == 0 and killing.result(Path(folder)) == first
        return [model, source, killing.deaths(outcome), "yes" if agree else "no", "yes" if same else "NO"]


if __name__ == "__main__":
    main()
