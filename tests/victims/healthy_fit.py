"""A small training that runs to its end, validation, prediction and saving included."""

import os
import tempfile

import keras
import numpy as np

x = np.random.rand(192, 16).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, batch_size=32, epochs=3, validation_split=0.25, verbose=2)
with tempfile.TemporaryDirectory() as folder:
    model.save(os.path.join(folder, "model.keras"))
model.predict(x, verbose=0)
