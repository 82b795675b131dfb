"""A data generator that waits for ever in the middle of an epoch."""

import threading

import keras
import numpy as np


def batches():
    for number in range(100):
        if number == 24:
            threading.Event().wait()
        yield np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch=100, epochs=1, verbose=0)
