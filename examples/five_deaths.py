"""A training that dies five times, of five different things, and ends with the weights of one that never did.

    python examples/five_deaths.py --calm
    keepfit run --memory 1GiB --restarts 5 --hang-after 5 -- python examples/five_deaths.py

Nothing in the training knows of keepfit. The deaths are real: each one happens once, at its batch.
"""

import ctypes
import os
import signal
import sys
import tempfile
import time

import keras
import numpy as np

keras.utils.set_random_seed(1)


def out_of_memory():
    return [np.ones(1 << 23) for _ in range(64)]  # 4 GiB


DEATHS = {
    30: lambda: os.kill(os.getpid(), signal.SIGKILL),
    60: lambda: ctypes.string_at(0),  # a segmentation fault
    90: lambda: time.sleep(10_000),  # a hang
    120: lambda: os.kill(os.getpid(), signal.SIGTERM),
    150: out_of_memory,
}


class Dies(keras.callbacks.Callback):
    """Bad luck, in the script itself. A file remembers what has happened already."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.03)
        step = int(self.model.optimizer.iterations.numpy())
        mark = os.path.join(tempfile.gettempdir(), f"five-deaths-{os.getppid()}-{step}")
        if step in DEATHS and not os.path.exists(mark):
            open(mark, "w").close()
            DEATHS[step]()


rng = np.random.default_rng(0)
x = rng.random((640, 20), dtype="float32")
y = (x.sum(axis=1) > 10).astype("float32")

model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1)])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
calm = "--calm" in sys.argv
history = model.fit(x, y, batch_size=32, epochs=10, verbose=0, callbacks=[] if calm else [Dies()])

print("steps", int(model.optimizer.iterations.numpy()))
print("loss by epoch", *(f"{loss:.4f}" for loss in history.history["loss"]))
print("weights", *(f"{np.linalg.norm(v.numpy()):.4f}" for v in model.trainable_weights))
