"""A transformer encoder trained at batch 1024, as people start it on a machine that holds 64: scenario "Killed"."""

import keras
import numpy as np

vocabulary, length, width, heads, blocks, batch = 8_000, 128, 256, 4, 4, 1024


def encoder() -> keras.Model:
    tokens = keras.Input((length,), dtype="int32")
    x = keras.layers.Embedding(vocabulary, width)(tokens)
    for _ in range(blocks):
        attended = keras.layers.MultiHeadAttention(heads, width // heads)(x, x)
        x = keras.layers.LayerNormalization()(x + attended)
        hidden = keras.layers.Dense(4 * width, activation="gelu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(width)(hidden))
    pooled = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, keras.layers.Dense(2)(pooled))


model = encoder()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
texts = np.random.randint(0, vocabulary, (4 * batch, length), dtype="int32")
labels = np.random.randint(0, 2, 4 * batch)
model.fit(texts, labels, batch_size=batch, epochs=1)
