"""Steps in 4 and 8 parts against the whole batch: time (interleaved, one process) and peak memory (one each)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from statistics import median

from . import tables

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "9"))
MODELS = os.environ.get("BENCH_MODELS", "conv,transformer,lstm").split(",")
WANTED = {"conv": 0.97, "transformer": 0.93, "lstm": 0.80}


def main() -> None:
    rows = []
    for name in MODELS:
        times = _child("time", name)
        for parts in (4, 8):
            whole, split = _child("peak", name, "1"), _child("peak", name, str(parts))
            share = (split["above"] - split["sums"]) / whole["above"]
            ratio, plain = (times["1"] / times[key] for key in (str(parts), f"plain {parts}"))
            rows.append(
                [name, times["batch"], parts, -(-int(times["batch"]) // parts), f"{ratio:.2f}", WANTED.get(name, ""),
                 f"{plain:.2f}", f"{whole['above'] / 2**20:.0f}", f"{split['above'] / 2**20:.0f}",
                 f"{split['sums'] / 2**20:.1f}", f"{share * parts:.2f}"]
            )  # fmt: skip
    header = (
        "model", "batch", "k", "rows", "speed / whole", "wanted", "plain Keras, such batches",
        "peak MiB", "in parts", "of it sums", "x k (≤ 1.25)",
    )  # fmt: skip
    tables.show("steps in parts against the whole batch", header, rows)


def _child(*words: str) -> dict[str, float]:
    import json

    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "bench.throughput", *words], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _prepared(name: str):
    """(iterator, whole, split, Split): both functions of one model, traced and warm."""
    from tests.agent.splitting import guarded

    from .families import FAMILIES, data

    heart, guard = guarded()
    make, batch = FAMILIES[name]
    model, shape, kind = make()
    x, y = data(shape, kind, batch)
    iterator = iter(_endless(x, y))
    heart.counsel.limit = 0
    model.make_train_function()
    whole = model.train_function
    heart.counsel.rows = batch
    from keepfit.agent.keras.held import HeldBatches

    return model, guard, iterator, whole, batch, HeldBatches


def _endless(x, y):
    """The same batch for ever, its rows unknown to the graph, as `fit` has them."""
    import tensorflow as tf

    def unknown(*leaves):
        return tuple(tf.compat.v1.placeholder_with_default(leaf, [None, *leaf.shape[1:]]) for leaf in leaves)

    return tf.data.Dataset.from_tensors((x, y)).map(unknown).repeat()


def time_steps(name: str) -> dict[str, float]:
    from keepfit.agent.peak import keep_giving_back, stop_giving_back

    model, guard, iterator, whole, batch, held = _prepared(name)
    split_function = guard.split_now(model, whole, held(iterator, 1, batch), batch)
    split = guard.split_of(model, "train")

    def step(parts: int) -> float:
        split.micro.assign(-(-batch // parts))
        function = whole if parts == 1 else split_function
        (stop_giving_back if parts == 1 else keep_giving_back)()  # each as it is in a run of its own
        function(iterator)
        began = time.monotonic()
        {k: float(v) for k, v in function(iterator).items()}
        return time.monotonic() - began

    few = {parts: iter(_endless(*(leaf[: -(-batch // parts)] for leaf in next(iterator)))) for parts in (4, 8)}

    def plain(parts: int) -> float:
        """The same rows as so many batches of their own: what smaller products cost, whoever splits."""
        stop_giving_back()
        whole(few[parts])
        began = time.monotonic()
        for _ in range(parts):
            logs = whole(few[parts])
        {k: float(v) for k, v in logs.items()}
        return time.monotonic() - began

    ways = {str(parts): partial(step, parts) for parts in (1, 4, 8)}
    ways |= {f"plain {parts}": partial(plain, parts) for parts in (4, 8)}
    taken: dict[str, list[float]] = {key: [] for key in ways}
    for number in range(ROUNDS + 1):
        for key, way in ways.items():
            took = way()
            if number:  # the first time is a warm-up
                taken[key].append(took)
    return {"batch": batch, **{key: median(times) for key, times in taken.items()}}


def peak_of_steps(name: str, parts: int) -> dict[str, float]:
    from keepfit.agent.peak import Peak, anonymous, keep_giving_back

    model, guard, iterator, whole, batch, held = _prepared(name)
    function = whole
    if parts > 1:
        function = guard.split_now(model, whole, held(iterator, 1, batch), -(-batch // parts))
    from .families import FAMILIES, data

    _, shape, kind = FAMILIES[name][0]()
    function(iter(_endless(*data(shape, kind, 2))))  # what the runtime takes once is no part of a step
    keep_giving_back()  # for the whole batch too: its peak at its best
    base, peak = anonymous(), Peak()
    for _ in range(3):
        function(iterator)
    weights = sum(4 * int(v.value.numpy().size) for v in model.trainable_variables)
    return {"above": peak.read() - base, "sums": weights if parts > 1 else 0}


if __name__ == "__main__":
    import json

    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "time":
        print(json.dumps(time_steps(sys.argv[2])))
    else:
        print(json.dumps(peak_of_steps(sys.argv[2], int(sys.argv[3]))))
