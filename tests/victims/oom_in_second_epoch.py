"""Trains well for an epoch; in the second one a callback collects far too much."""

import keras
import numpy as np


class Hoarder(keras.callbacks.Callback):
    held = []

    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations.numpy() > 12:
            self.held.append(np.ones((256 << 20,), dtype="uint8"))


x = np.random.rand(256, 16).astype("float32")
model = keras.Sequential([keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=32, epochs=50, verbose=2, callbacks=[Hoarder()])
