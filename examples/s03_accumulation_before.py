"""S3, before: meant to add gradients over four micro-batches, it assigns them. Three quarters of the data are lost."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.1)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(256, 8)).astype("float32"), rng.normal(size=(256, 1)).astype("float32")
MICRO, STEPS = 16, 4

for start in range(0, len(x), MICRO * STEPS):
    for part in range(STEPS):
        rows = slice(start + part * MICRO, start + (part + 1) * MICRO)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x[rows], training=True) - y[rows]) ** 2) / STEPS
        gradients = tape.gradient(loss, model.trainable_variables)  # assigned, not added
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

print("weights", *(f"{float(np.abs(w).sum()):.5f}" for w in model.get_weights()))
