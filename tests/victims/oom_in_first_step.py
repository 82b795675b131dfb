"""A batch far too large for its container: dies in the very first step of `fit`."""

import keras
import numpy as np

batch = 2048
x = np.random.rand(batch, 64, 64, 3).astype("float32")
y = np.random.randint(0, 10, batch)
model = keras.Sequential(
    [
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=batch, epochs=2, verbose=2)
