"""S3, after: `keepfit.accumulate` adds, and weighs: one step on the whole batch, to rounding (checked at the end)."""

import keras
import numpy as np
import tensorflow as tf

import keepfit

rng = np.random.default_rng(0)
x, y = rng.normal(size=(256, 8)).astype("float32"), rng.normal(size=(256, 1)).astype("float32")
BATCH, MICRO = 64, 16


def train(micro_batch: int) -> list[np.ndarray]:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)

    def loss_of(x, y):
        return tf.reduce_mean((model(x, training=True) - y) ** 2)

    for start in range(0, len(x), BATCH):
        batch = tf.constant(x[start : start + BATCH]), tf.constant(y[start : start + BATCH])
        _, gradients = keepfit.accumulate(loss_of, model.trainable_variables, *batch, micro_batch=micro_batch)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return model.get_weights()


in_parts, whole = train(MICRO), train(BATCH)
print("weights", *(f"{float(np.abs(w).sum()):.5f}" for w in in_parts))
print("largest difference to the whole batch", max(float(np.abs(a - b).max()) for a, b in zip(in_parts, whole)))
