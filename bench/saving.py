"""What saving states costs: one process, run under keepfit, in short interleaved blocks of the same training.

A block either takes one state in its middle or none; what the block takes longer is the cost of a state, its
writing in the background included. Divided by the pause that keepfit chooses between two states, it is the
overhead. Beside it Keras' `BackupAndRestore`, saving as often.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from tests import stage

from . import tables

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "40"))
SIZES = [int(word) for word in os.environ.get("BENCH_MB", "1,100").split(",")]  # of the whole state, about
BLOCK = float(os.environ.get("BENCH_BLOCK", "0"))  # seconds; 0: by the size of the state


def main() -> None:
    rows = []
    for megabytes in SIZES:
        os.environ["BENCH_BLOCK"] = str(BLOCK or (0.6 if megabytes < 10 else 3.0))
        with tempfile.TemporaryDirectory() as runs:
            done = subprocess.run(
                [*stage.KEEPFIT, "run", "--", sys.executable, "-m", "bench.saving", "--inside", str(megabytes)],
                env=stage.clean_environment(runs),  # type: ignore[arg-type]
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        if done.returncode:
            sys.exit(f"the measurement failed:\n{done.stderr[-3000:]}")
        found = json.loads(done.stdout.strip().splitlines()[-1])
        rows += _rows(megabytes, found, float(os.environ["BENCH_BLOCK"]))
    header = (
        "STATE",
        "VARIANT",
        "EXTRA TIME A STATE",
        "95 % BOUND",
        "EVERY",
        "OVERHEAD",
        "STEP WAITS, MEDIAN / WORST",
        "BLOCKS",
    )
    tables.show(
        "Saving states against the same training without",
        header,
        rows,
        "wanted: overhead ≤ 1 %, work at risk ≤ 30 s, a step waits ≤ 60 ms at 100 MB",
    )


def _rows(megabytes: int, found: dict, block: float) -> list[list[object]]:
    base, rows = found["times"]["plain"], []
    for name, values in found["times"].items():
        if name == "plain":
            continue
        extra = [(value / reference - 1) * block for value, reference in zip(values, base, strict=True)]
        middle, low, high = tables.median_with_bound(extra)
        every = found["pause"]
        waits = found["waits"].get(name) or [0.0]
        rows.append(
            [f"{megabytes} MB", name, f"{1000 * middle:.0f} ms", f"{1000 * low:.0f} to {1000 * high:.0f} ms",
             "-" if "A/A" in name else f"{every:.1f} s", "-" if "A/A" in name else f"{middle / every:.2%}",
             f"{1000 * statistics.median(waits):.0f} / {1000 * max(waits):.0f} ms", len(extra)]
        )  # fmt: skip
    return rows


# --- inside the supervised process -------------------------------------------------------------------------


def inside(megabytes: int) -> None:
    import keras
    import numpy as np

    width = max(64, int((megabytes * 1e6 / 4 / 3 / 3) ** 0.5))  # three layers, three copies: weights and Adam's two
    x = np.random.rand(256, width).astype("float32")
    model = keras.Sequential([keras.Input((width,)), *[keras.layers.Dense(width, "tanh") for _ in range(3)]])
    model.compile("adam", "mse")
    backup = keras.callbacks.BackupAndRestore(tempfile.mkdtemp(), save_freq=10**9)
    blocks = Blocks(backup)
    model.fit(x, x, batch_size=16, epochs=10**6, verbose=0, callbacks=[backup, blocks])
    print(json.dumps({"times": blocks.times, "waits": blocks.waits, "pause": statistics.median(blocks.pauses)}))


def Blocks(backup):
    import keras

    class Measuring(keras.callbacks.Callback):
        """Goes through the variants, block after block, in the steps of one `fit`."""

        def __init__(self):
            super().__init__()
            self.times = {name: [] for name in ("plain", "plain again (A/A)", "keepfit", "BackupAndRestore")}
            self.waits = {"keepfit": [], "BackupAndRestore": []}
            self.pauses = []
            self._left = []
            self._began = None

        def on_train_batch_end(self, batch, logs=None):
            now = time.perf_counter()
            if self._began is None:
                self._saving = sys.modules["_keepfit.agent.heart"].CLAIMED.keeping.saving
                self._saving._writer.wait(60)
                self._next(now)
                return
            self._steps += 1
            if not self._done and now - self._began > BLOCK / 3:
                self._done = True
                self._act()
            if now - self._began >= BLOCK:
                self._finish(now)

        def _act(self):
            if self._name == "keepfit":
                self._saving._due = 0.0  # the next look saves
            elif self._name == "BackupAndRestore":
                began = time.perf_counter()
                backup._save_model()
                self.waits["BackupAndRestore"].append(time.perf_counter() - began)

        def _finish(self, now):
            saving = self._saving
            if self._name == "keepfit":
                saving._writer.wait(60)
                self.waits["keepfit"].append(saving._stall)
                self.pauses.append(saving._due - time.monotonic() + (time.perf_counter() - now))
            self.times[self._name].append((now - self._began) / self._steps)
            if all(len(values) >= ROUNDS for values in self.times.values()):
                self.model.stop_training = True
            self._next(time.perf_counter())

        def _next(self, now):
            if not self._left:
                self._left = list(self.times)
                random.shuffle(self._left)
            self._name = self._left.pop()
            self._saving._due = float("inf")
            self._began, self._steps, self._done = now, 0, False

    return Measuring()


if __name__ == "__main__":
    if "--inside" in sys.argv:
        inside(int(sys.argv[-1]))
    else:
        main()
