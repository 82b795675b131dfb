"""S20, before: a compiled loop with a loss of its own over unmasked tokens, and a metric. It needs about 1.2 GiB."""

import keras
import numpy as np
import tensorflow as tf

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
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tokens, model(tokens, training=True))
        valid = tf.cast(tokens > 0, tf.float32)
        loss = tf.reduce_sum(losses * valid) / tf.reduce_sum(valid)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    seen.update_state(loss)


for tokens in dataset:
    train_step(tokens)
    print("loss", f"{float(seen.result()):.4f}", flush=True)
