"""A shuffle buffer that takes 11 s to fill at the start of every epoch."""

import time

import keras
import tensorflow as tf


def slow(number):
    time.sleep(0.011)
    return number


data = (
    tf.data.Dataset.range(1000)
    .map(lambda n: tf.py_function(slow, [n], tf.int64), num_parallel_calls=1)
    .shuffle(1000)
    .map(lambda n: (tf.fill([4], tf.cast(n, tf.float32) / 1000.0), tf.fill([1], 1.0)))
    .batch(100)
)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=2)
