"""A data generator that waits for ever in the middle of an epoch."""

import threading

import keras
import numpy as np


def batches():
    for number in range(200):
        if number == 50:
            threading.Event().wait()  # the server never answers
        yield np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(batches(), steps_per_epoch=200, epochs=1, verbose=2)
