"""One bad row in 100,000: plain Keras loses the whole training to it.  one_bad_row.py [--without]"""

import sys

import keras
import numpy as np

ROWS, BAD = 100_000, 81_234
data = np.random.default_rng(5)
x = data.random((ROWS, 8), dtype="float32")
y = ((x - 0.5) @ data.normal(size=(8, 4)).astype("float32")).argmax(axis=1)
if "--without" in sys.argv:
    x, y = np.delete(x, BAD, axis=0), np.delete(y, BAD)
else:
    x[BAD, 3] = np.nan

keras.utils.set_random_seed(1)
layers = keras.layers
model = keras.Sequential([layers.Dense(32, activation="relu"), layers.BatchNormalization(), layers.Dense(4)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(x, y, batch_size=256, epochs=2, verbose=0).history
print(f"trained on {ROWS} rows, accuracy {history['accuracy'][-1]:.2f}")
