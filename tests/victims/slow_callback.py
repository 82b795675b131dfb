"""A callback that takes 12 s between two steps."""

import time

import keras
import numpy as np


class Uploads(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            time.sleep(12)


x = np.ones((320, 4), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], epochs=1, verbose=2, callbacks=[Uploads()])
