"""A convolutional net by `fit` whose batch needs more than its budget: sizes by argument, results printed."""

import sys

import keras
import numpy as np

batch, steps, epochs = (int(word) for word in sys.argv[1:4])
layers = keras.layers
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
images = rng.random((batch * steps, 48, 48, 3), dtype="float32")
labels = rng.integers(0, 10, batch * steps)
model = keras.Sequential(
    [
        keras.Input((48, 48, 3)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
print("ready", flush=True)
history = model.fit(images, labels, batch_size=batch, epochs=epochs, shuffle=False, verbose=0).history
weights = [np.abs(w).sum(dtype="float64") for w in model.get_weights()]
print("result", *(f"{v:.8f}" for v in [*history["loss"], *weights]), flush=True)
