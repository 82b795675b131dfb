"""What a training step pays, measured in one process in short interleaved blocks.

Whole processes side by side vary by 0.7 to 1.5 on a shared machine, so they cannot answer a question of one
per cent. Here one process, run under keepfit, takes the inner loop of `fit` in blocks of a few steps and
switches between them: hooks in and supervisor running, hooks out and supervisor stopped (SIGSTOP), and the
same once more as the A/A row; beside them memray and `enable_check_numerics` on the same work.

A supervisor that was stopped is late with everything when it is continued. So before a block is timed it gets
a random while to settle, and the block then meets its ordinary work at an ordinary moment. What is compared are
means over a block, not medians: one step in fifty that waits for the supervisor must count.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from tests import stage

from . import tables

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "520"))
BESIDE_EVERY = 8  # the other rows in every eighth round
BLOCK = 0.12  # seconds of steps
SETTLE = (0.02, 0.6)  # seconds
MODELS = os.environ.get("BENCH_MODELS", "dense,conv").split(",")
HOOKS = ("on_train_batch_begin", "on_train_batch_end")


def main() -> None:
    for model in MODELS:
        with tempfile.TemporaryDirectory() as runs:
            done = subprocess.run(
                [*stage.KEEPFIT, "run", "--", sys.executable, "-m", "bench.overhead", "--inside", model],
                env=stage.clean_environment(runs),  # type: ignore[arg-type]
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            sys.exit(f"the measurement failed:\n{done.stderr[-3000:]}")
        result = json.loads(done.stdout.strip().splitlines()[-1])
        _show(model, result["times"], result["lacked"])


def _show(model: str, times: dict[str, list[float]], lacked: dict[str, str]) -> None:
    base = times["plain"]
    rows = []
    for name, values in times.items():
        if name == "plain":
            continue
        ratios = [value / reference for value, reference in zip(values, base, strict=True) if value]
        middle, low, high = tables.median_with_bound(ratios)
        wanted = "≤ 1.01, bound ≤ 1.02" if name == "keepfit" else ""
        reached = tables.verdict(middle <= 1.01 and high <= 1.02) if name == "keepfit" else ""
        rows.append([name, f"{middle:.4f}", f"{low:.4f} to {high:.4f}", len(ratios), wanted, reached])
    rows += [[name, why, "", "", "", ""] for name, why in lacked.items()]
    step = statistics.median(base) * 1000
    header = ("VARIANT / PLAIN", "MEDIAN RATIO", "95 % BOUND", "PAIRS", "WANTED", "REACHED")
    tables.show(f"Step time, {model} net, {step:.2f} ms a step, blocks of {BLOCK} s", header, rows)


# --- inside the supervised process -------------------------------------------------------------------------


def inside(kind: str) -> None:
    import keras
    import numpy as np
    import tensorflow as tf
    from keras.src.callbacks.callback_list import CallbackList

    def build():
        layers = {
            "dense": [keras.Input((128,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(256, "relu")],
            "conv": [
                keras.Input((20, 20, 1)),
                keras.layers.Conv2D(8, 3, activation="relu"),
                keras.layers.GlobalAveragePooling2D(),
            ],
        }[kind]
        model = keras.Sequential([*layers, keras.layers.Dense(10)])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        shape = model.input_shape[1:]
        x = np.random.rand(64, *shape).astype("float32")
        y = np.random.randint(0, 10, 64)
        data = tf.data.Dataset.from_tensors((x, y)).cache().repeat()
        model.make_train_function()
        iterator = iter(data)
        for _ in range(50):
            model.train_function(iterator)
        return model, iterator

    plain = build()
    tf.debugging.enable_check_numerics()
    checked = build()
    tf.debugging.disable_check_numerics()

    supervisor = _supervisor()
    # The same class without our hooks: switching by setattr would make the interpreter forget what it has
    # learned about the class at every switch, and that would be measured instead.
    originals = {name: getattr(CallbackList, name).__wrapped__ for name in HOOKS}
    Unhooked = type("CallbackList", (CallbackList,), originals)
    hooked = {id(model): CallbackList([], add_history=True, model=model) for model, _ in (plain, checked)}
    unhooked = {id(model): Unhooked([], add_history=True, model=model) for model, _ in (plain, checked)}

    def steps(model, iterator, seconds: float, lists=unhooked) -> float:
        """The inner loop of `fit` for a while; the mean time of a step."""
        callbacks, count, began = lists[id(model)], 0, time.perf_counter()
        while (took := time.perf_counter() - began) < seconds:
            callbacks.on_train_batch_begin(count)
            logs = model.train_function(iterator)
            callbacks.on_train_batch_end(count, logs)
            count += 1
        return took / count

    def block(model, iterator, lists=unhooked) -> float:
        steps(model, iterator, 0.01, lists)
        return steps(model, iterator, BLOCK, lists)

    def with_agent() -> float:
        return block(*plain, hooked)

    def with_supervisor(then) -> float:
        _signal(supervisor, signal.SIGCONT)
        try:
            steps(*plain, random.uniform(*SETTLE))
            return then()
        finally:
            _signal(supervisor, signal.SIGSTOP)

    variants = {
        "plain": lambda: block(*plain),
        "plain again (A/A)": lambda: block(*plain),
        "keepfit": lambda: with_supervisor(with_agent),
        "its agent alone": with_agent,
        "its supervisor alone": lambda: with_supervisor(lambda: block(*plain)),
        "enable_check_numerics": lambda: block(*checked),
    }
    lacked = {}
    try:
        import memray
    except ImportError as error:
        lacked["memray"] = str(error)
    else:

        def with_memray() -> float:
            with memray.Tracker(destination=memray.FileDestination("/dev/null", overwrite=True)):
                return block(*plain)

        variants["memray"] = with_memray
    times: dict[str, list[float]] = {name: [] for name in variants}
    order = list(variants)
    _signal(supervisor, signal.SIGSTOP)
    try:
        for number in range(ROUNDS):
            random.shuffle(order)
            for name in order:
                beside = name in (
                    "memray",
                    "enable_check_numerics",
                    *os.environ.get("BENCH_BESIDE", "its agent alone,its supervisor alone").split(","),
                )
                times[name].append(0.0 if beside and number % BESIDE_EVERY else variants[name]())
    finally:
        _signal(supervisor, signal.SIGCONT)
    print(json.dumps({"times": times, "lacked": lacked}))


def _supervisor() -> list[int]:
    """The front (our parent) and the judge (its other child)."""
    front = os.getppid()
    judges = [pid for pid in stage.children(front) if pid != os.getpid()]
    assert len(judges) == 1, judges
    return [front, *judges]


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        os.kill(pid, number)


if __name__ == "__main__":
    if "--inside" in sys.argv:
        inside(sys.argv[-1])
    else:
        main()
