"""Kills itself in its second step; with `then-stays` only the first time, and then trains until it is ended."""

import os
import signal
import sys

import keras
import numpy as np

print("training", flush=True)
first = os.environ["KEEPFIT_ATTEMPT"] == "1"


class End(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1 and (first or "then-stays" not in sys.argv):
            os.kill(os.getpid(), signal.SIGKILL)


model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.ones((64, 4), "float32")
model.fit(x, x.sum(1), batch_size=8, epochs=100_000, verbose=0, callbacks=[End()])
