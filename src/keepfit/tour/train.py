"""The tour's training: a small convolutional net whose batch is far too large for its container."""

import keras
import numpy as np

batch = 2048
images = np.random.rand(batch, 64, 64, 3).astype("float32")
labels = np.random.randint(0, 10, batch)

model = keras.Sequential(
    [
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
print(f"training on {batch} images at once", flush=True)
model.fit(images, labels, batch_size=batch, epochs=3, verbose=2)
