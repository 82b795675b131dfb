"""Twelve ways to feed a small model, as people write them: python -m bench.pipeline_programs NAME"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

BATCH, EPOCHS = 32, 2
PIXELS = (64, 64, 3)
SHUFFLE = int(os.environ.get("BENCH_SHUFFLE", "6000"))  # what `bench options` tries
CACHE = os.environ.get("BENCH_CACHE", "")
STREAMED = bool(os.environ.get("BENCH_STREAMED"))


def _tf() -> Any:
    import tensorflow as tf

    return tf


def _images(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, *PIXELS), dtype="float32")


def _generated(rows: int) -> Any:
    """Images that are made one by one, so that only what the pipeline holds is in memory."""
    tf = _tf()
    numbers = tf.data.Dataset.range(rows)
    return numbers.map(lambda n: (tf.random.stateless_uniform(PIXELS, (n, 1)), tf.cast(n % 10, tf.int32)))


def shuffled_scalars() -> Any:
    tf = _tf()
    numbers = tf.data.Dataset.range(2_000_000).shuffle(2_000_000)
    pair = numbers.map(lambda n: (tf.fill(PIXELS, tf.cast(n % 7, tf.float32)), tf.cast(n % 10, tf.int32)))
    return pair.batch(BATCH).take(40)


def shuffled_images() -> Any:
    return _generated(8000).shuffle(SHUFFLE).batch(BATCH).take(40)


def shuffled_strings() -> Any:
    tf = _tf()
    names = tf.data.Dataset.range(1_000_000).map(
        lambda n: tf.strings.join(["/data/train/img_", tf.strings.as_string(n)])
    )
    shuffled = names.shuffle(1_000_000)
    pair = shuffled.map(lambda s: (tf.fill(PIXELS, 0.5), tf.strings.to_hash_bucket_fast(s, 10)))
    return pair.batch(BATCH).take(40)


def cached() -> Any:
    return _generated(5000).cache(CACHE).batch(BATCH)


def cached_and_shuffled() -> Any:
    return _generated(5000).cache().shuffle(5000).batch(BATCH)


def two_shuffles() -> Any:
    return _generated(9000).shuffle(3000).shuffle(4000).batch(BATCH).take(40)


def fetched_ahead() -> Any:
    return _generated(8000).batch(256).prefetch(40)


def interleaved() -> Any:
    tf = _tf()
    shards = tf.data.Dataset.range(16)
    return shards.interleave(lambda n: _generated(300).shuffle(300), cycle_length=8, num_parallel_calls=2).batch(BATCH)


def from_slices() -> Any:
    if STREAMED:
        return _generated(10_000).batch(BATCH)
    images = _images(10_000)  # 470 MiB
    labels = np.arange(10_000) % 10
    return _tf().data.Dataset.from_tensor_slices((images, labels)).batch(BATCH)


def from_generator() -> Any:
    tf = _tf()

    def rows() -> Iterator[Any]:
        for number in range(4000):
            yield np.full(PIXELS, number % 5, "float32"), number % 10

    signature = (tf.TensorSpec(PIXELS, tf.float32), tf.TensorSpec((), tf.int32))
    return tf.data.Dataset.from_generator(rows, output_signature=signature).shuffle(3000).batch(BATCH).take(40)


def shuffled_after_batching() -> Any:
    return _generated(8000).batch(BATCH).shuffle(150).take(40)


def mapped_in_parallel() -> Any:
    tf = _tf()
    numbers = tf.data.Dataset.range(4000)

    def load(n: Any) -> Any:
        big = tf.random.stateless_uniform((512, 512, 3), (n, 1))
        return tf.image.resize(big, PIXELS[:2]), tf.cast(n % 10, tf.int32)

    return numbers.map(load, num_parallel_calls=8).batch(BATCH).prefetch(4).take(30)


PROGRAMS = {
    program.__name__: program
    for program in (
        shuffled_scalars, shuffled_images, shuffled_strings, cached, cached_and_shuffled, two_shuffles, fetched_ahead,
        interleaved, from_slices, from_generator, shuffled_after_batching, mapped_in_parallel,
    )
}  # fmt: skip


def main(name: str) -> None:
    import keras

    with open("/proc/self/status") as file:
        after = next(line for line in file if line.startswith("VmRSS"))
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input(PIXELS), layers.Conv2D(4, 3, strides=4), layers.GlobalAveragePooling2D(), layers.Dense(10)]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    data = PROGRAMS[name]()
    began = time.monotonic()
    model.fit(data, epochs=EPOCHS, verbose=0)
    took = time.monotonic() - began
    with open("/proc/self/status") as file:
        peak = next(line for line in file if line.startswith("VmHWM"))
    print("peak", 1024 * int(peak.split()[1]), "after_import", 1024 * int(after.split()[1]), flush=True)
    print("seconds", took, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
