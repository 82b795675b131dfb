"""An unmodified hand-written loop: hand_written_loop.py eager|compiled"""

import sys

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam()
data = tf.data.Dataset.from_tensor_slices(tf.random.normal((64, 4))).batch(8)
held_out = tf.data.Dataset.from_tensor_slices(tf.random.normal((16, 4))).batch(8)


def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(batch, training=True) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


if sys.argv[1] == "compiled":
    train_step = tf.function(train_step)
for _epoch in range(3):
    for batch in data:
        train_step(batch)
    for batch in held_out:
        model(batch)
