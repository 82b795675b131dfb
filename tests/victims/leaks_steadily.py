"""Holds on to a little more with every step: a steady climb, no spike."""

import time

import keras
import numpy as np


class Keeps(keras.callbacks.Callback):
    held = []

    def on_train_batch_end(self, batch, logs=None):
        self.held.append(np.ones((8 << 20,), dtype="uint8"))
        time.sleep(0.1)


x = np.random.rand(256, 16).astype("float32")
model = keras.Sequential([keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=8, epochs=100, verbose=0, callbacks=[Keeps()])
