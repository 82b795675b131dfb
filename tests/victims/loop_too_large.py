"""An unmodified hand-written loop, compiled, whose batch is far too large."""

import keras
import tensorflow as tf

layers = keras.layers
model = keras.Sequential(
    [keras.Input((48, 48, 3)), layers.Conv2D(32, 3), layers.Conv2D(32, 3), layers.Flatten(), layers.Dense(1)]
)
optimizer = keras.optimizers.Adam()
dataset = tf.data.Dataset.from_tensor_slices((tf.zeros((1024, 48, 48, 3)), tf.zeros((1024, 1)))).batch(1024)


@tf.function
def train_step(images, targets):
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = tf.reduce_mean((predictions - targets) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for images, targets in dataset.repeat(3):
    train_step(images, targets)
