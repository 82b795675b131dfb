"""S20, after: the loss function also returns how many tokens it divided by, so parts are weighed as the whole is."""

import keras
import numpy as np
import tensorflow as tf

import keepfit

WORDS, LENGTH, WIDTH, BATCH = 500, 64, 128, 1024
layers = keras.layers
model = keras.Sequential(
    [keras.Input((LENGTH,), dtype="int32"), layers.Embedding(WORDS, WIDTH), layers.Dense(4 * WIDTH, activation="gelu"),
     layers.Dense(WIDTH), layers.Dense(WORDS)]
)  # fmt: skip
optimizer, seen = keras.optimizers.Adam(), keras.metrics.Mean()
tokens = np.random.default_rng(0).integers(0, WORDS, (3 * BATCH, LENGTH), dtype="int32")
dataset = tf.data.Dataset.from_tensor_slices(tokens).batch(BATCH)


@tf.function
def train_step(tokens):
    def loss_of(tokens):  # 1
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tokens, model(tokens, training=True))
        valid = tf.cast(tokens > 0, tf.float32)
        return tf.reduce_sum(losses * valid) / tf.reduce_sum(valid), tf.reduce_sum(valid)  # 2

    loss, gradients = keepfit.accumulate(loss_of, model.trainable_variables, tokens)  # 3
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    seen.update_state(loss)


for tokens in dataset:
    train_step(tokens)
    print("loss", f"{float(seen.result()):.4f}", flush=True)
