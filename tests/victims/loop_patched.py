"""The loop of loop_too_large.py with its three changed lines."""

import keras
import tensorflow as tf

import keepfit

layers = keras.layers
model = keras.Sequential(
    [keras.Input((48, 48, 3)), layers.Conv2D(32, 3), layers.Conv2D(32, 3), layers.Flatten(), layers.Dense(1)]
)
optimizer = keras.optimizers.Adam()
dataset = tf.data.Dataset.from_tensor_slices((tf.zeros((1024, 48, 48, 3)), tf.zeros((1024, 1)))).batch(1024)


@tf.function
def train_step(images, targets):
    def loss_of(images, targets):
        predictions = model(images, training=True)
        return tf.reduce_mean((predictions - targets) ** 2)

    loss, gradients = keepfit.accumulate(loss_of, model.trainable_variables, images, targets)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for images, targets in dataset.repeat(4):
    train_step(images, targets)
print("done", flush=True)
