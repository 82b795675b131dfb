"""S1 with a loop of one's own, before: `Killed` in the first step."""

import keras
import tensorflow as tf
from encoder import BATCH, corpus, encoder

model, optimizer = encoder(), keras.optimizers.Adam()
loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
dataset = tf.data.Dataset.from_tensor_slices(corpus()).batch(BATCH)


@tf.function
def train_step(texts, labels):
    with tf.GradientTape() as tape:
        loss = loss_function(labels, model(texts, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for texts, labels in dataset:
    print("loss", float(train_step(texts, labels)), flush=True)
