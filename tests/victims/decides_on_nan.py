"""Trainings whose callbacks have a say about a NaN, one for each word: decides_on_nan.py KIND..."""

import os
import sys

import keras
import numpy as np

keras.utils.set_random_seed(1)
rows = np.random.RandomState(0).rand(64, 8).astype("float32")


class See(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))


class Own(keras.callbacks.Callback):
    def on_batch_end(self, batch, logs=None):
        if not np.isfinite(logs["loss"]):
            self.model.stop_training = True


def callbacks(kind):
    return {
        "stop": [keras.callbacks.TerminateOnNaN()],
        "raise": [keras.callbacks.TerminateOnNaN(raise_error=True)],
        "own": [Own()],
        "stop-healthy": [keras.callbacks.TerminateOnNaN()],
    }.get(kind, [])


for kind in sys.argv[1:]:
    x = rows.copy()
    if not kind.endswith("healthy"):
        x[21, 3] = np.nan  # in the third batch of eight
    if kind == "without":  # that batch
        x = np.delete(x, np.s_[16:24], axis=0)
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    if kind == "batches":  # a loop of its own, which goes by what it is told
        losses = [model.train_on_batch(x[at : at + 8], x[at : at + 8].sum(1)) for at in range(0, 64, 8)]
        print("returned", losses)
        continue
    see = See()
    verbose = int(os.environ.get("VERBOSE", "0"))
    model.fit(x, x.sum(1), batch_size=8, epochs=2, verbose=verbose, shuffle=False, callbacks=[*callbacks(kind), see])
    print("seen", [round(loss, 6) for loss in see.losses])
    print("history", [round(loss, 6) for loss in model.history.history["loss"]])
    print("weights", float(sum(np.abs(weight).sum() for weight in model.get_weights())))
