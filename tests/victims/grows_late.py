"""Fits its budget in micro-batches, until a callback takes far more in the second epoch; once: grows_late.py MARKER

Where states are kept, one is on disk by then: its steps may be done before that is written.
"""

import glob
import os
import sys
import time

import keras
import numpy as np

layers = keras.layers
images = np.random.default_rng(0).random((1024, 48, 48, 3), dtype="float32")
model = keras.Sequential(
    [keras.Input((48, 48, 3)), layers.Conv2D(32, 3), layers.Conv2D(32, 3), layers.Flatten(), layers.Dense(1)]
)
model.compile("adam", "mse")
held = []


class Late(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1 and not os.path.exists(sys.argv[1]):
            open(sys.argv[1], "w").close()
            states, late = os.environ.get("KEEPFIT_STATES"), time.monotonic() + 60
            while states and not glob.glob(f"{states}/[0-9]*/manifest.json") and time.monotonic() < late:
                time.sleep(0.05)
            held.append(np.ones(600 << 20, "uint8"))


model.fit(images, np.zeros((1024, 1)), batch_size=512, epochs=3, verbose=0, callbacks=[Late()])
