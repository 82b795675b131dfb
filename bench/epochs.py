"""What the beginning of an epoch costs where its position in the data is kept, beside the epoch itself."""

from __future__ import annotations

import statistics
import time

from . import tables

EPOCHS = 6


def main() -> None:
    import numpy as np
    import tensorflow as tf

    from keepfit.agent.tensorflow.position import Saver

    rows = np.random.rand(50_000, 1000).astype("float32")  # 200 MB
    whole = tf.data.Dataset.from_tensor_slices(rows)
    pipelines = {
        "64 numbers, shuffle": tf.data.Dataset.range(64).shuffle(64).batch(32),
        "200 MB, shuffle": whole.shuffle(1000).batch(256).prefetch(2),
        "200 MB, cache, shuffle": whole.cache().shuffle(1000).batch(256).prefetch(2),
        "200 MB, shuffle, cache": whole.shuffle(1000).cache().batch(256).prefetch(2),
    }
    shown = []
    for name, dataset in pipelines.items():
        saver, begun, epochs = Saver(dataset), [], []
        for _ in range(EPOCHS):
            began = time.perf_counter()
            iterator = iter(dataset)
            made = time.perf_counter()
            saver.begin(iterator)
            begun.append(time.perf_counter() - made)
            for _ in iterator:
                pass
            epochs.append(time.perf_counter() - began)
        told = [f"{1000 * took:.2f}" for took in begun]
        shown.append([name, *told, f"{1000 * statistics.median(epochs[1:]):.0f}"])
    header = ("PIPELINE", *(f"EPOCH {number + 1}" for number in range(EPOCHS)), "AN EPOCH'S DATA")
    tables.show("the state at the beginning of an epoch, ms", header, shown)


if __name__ == "__main__":
    main()
