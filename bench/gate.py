"""What the gate and the health of a step cost, beside the tools there are: short interleaved blocks in one process.

The same model is compiled several times: as Keras does it, once more (A/A), under the gate with its looks ten times
a second, with `TerminateOnNaN`, with `enable_check_numerics`, and eagerly.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time

from . import tables

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "120"))
MODELS = os.environ.get("BENCH_MODELS", "conv,transformer,lstm").split(",")
BLOCK = 0.5  # seconds, or two steps
BESIDE_EVERY = 6


def main() -> None:
    for name in MODELS:
        done = subprocess.run(
            [sys.executable, "-m", "bench.gate", name], capture_output=True, text=True, check=False,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stderr[-3000:])
        times = json.loads(done.stdout.strip().splitlines()[-1])
        rows = []
        for variant, values in times.items():
            if variant == "plain":
                continue
            ratios = [value / base for value, base in zip(values, times["plain"], strict=True) if value]
            middle, low, high = tables.median_with_bound(ratios)
            wanted = "≤ 1.01" if variant == "gate and health" else ""
            reached = tables.verdict(middle <= 1.01) if wanted else ""
            rows.append([variant, f"{middle:.4f}", f"{low:.4f} to {high:.4f}", len(ratios), wanted, reached])
        step = statistics.median(times["plain"]) * 1000
        header = ("VARIANT / PLAIN", "MEDIAN RATIO", "95 % BOUND", "PAIRS", "WANTED", "REACHED")
        tables.show(f"The gate, {name}, {step:.0f} ms a step", header, rows)


def inside(name: str) -> None:
    import keras
    import tensorflow as tf

    from .families import conv, data, lstm, transformer

    rows = 64
    make = {
        "conv": lambda: conv(side=32),
        "transformer": lambda: transformer(width=64, blocks=2),
        "lstm": lambda: lstm(length=40, width=96),
    }[name]

    def build(**compiled):
        keras.utils.set_random_seed(1)
        model, shape, kind = make()
        model.compile("adam", model.loss, metrics=["accuracy"], jit_compile=False, **compiled)
        iterator = iter(tf.data.Dataset.from_tensors(data(shape, kind, rows)).cache().repeat())
        model.make_train_function()
        for _ in range(5):
            model.train_function(iterator)
        return model, iterator

    built = {
        "plain": build(),
        "plain again (A/A)": build(),
        "TerminateOnNaN": build(),
        "eager": build(run_eagerly=True),
    }
    tf.debugging.enable_check_numerics()
    built["enable_check_numerics"] = build()
    tf.debugging.disable_check_numerics()

    from tests.agent.splitting import gated

    heart, made = gated()
    heart.counsel.limit = 0
    built["gate and health"] = build()
    from keepfit.agent.keras.health import Health
    from keepfit.agent.keras.inputs import Inputs

    health = Health(heart, made.gate, made, "keras.src.")
    inputs = Inputs(heart, made.gate, "keras.src.")
    model = built["gate and health"][0]
    assert made.gate.watched(model) is not None
    heart.steps = 0
    health.epoch_begins(model)
    inputs.epoch_begins(model)

    def handed(watched, batch):
        health.handed(watched, batch)
        inputs.handed(watched, batch)

    made.gate.handed = handed
    stop = keras.callbacks.TerminateOnNaN()
    stop.set_model(built["TerminateOnNaN"][0])

    def block(variant: str) -> float:
        model, iterator = built[variant]
        count, began, looked = 0, time.perf_counter(), 0.0
        while (took := time.perf_counter() - began) < BLOCK or count < 2:
            logs = model.train_function(iterator)
            count += 1
            if variant == "TerminateOnNaN":
                stop.on_train_batch_end(count, logs)
            elif variant == "gate and health":
                heart.steps += 1
                if took - looked > 0.1:
                    looked = took
                    made.numbers.look()
                    health.look()
                    inputs.look()
        return took / count if count else 0.0

    times: dict[str, list[float]] = {variant: [] for variant in built}
    order = list(built)
    for number in range(ROUNDS):
        random.shuffle(order)
        for variant in order:
            beside = variant in ("TerminateOnNaN", "eager", "enable_check_numerics")
            times[variant].append(0.0 if beside and number % BESIDE_EVERY else block(variant))
    print(json.dumps(times))


if __name__ == "__main__":
    inside(sys.argv[-1]) if len(sys.argv) > 1 else main()
