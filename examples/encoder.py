"""A BERT-style encoder and a corpus for it, made on the spot: what the S1 scripts train."""

import keras
import numpy as np

VOCABULARY, LENGTH, WIDTH, HEADS, BLOCKS, BATCH, STEPS = 2_000, 64, 96, 4, 2, 1024, 3


def encoder() -> keras.Model:
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, WIDTH)(tokens)
    for _ in range(BLOCKS):
        attended = keras.layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(x, x)
        x = keras.layers.LayerNormalization()(x + attended)
        hidden = keras.layers.Dense(4 * WIDTH, activation="gelu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(WIDTH)(hidden))
    return keras.Model(tokens, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(x)))


def corpus() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    texts = rng.integers(1, VOCABULARY, (STEPS * BATCH, LENGTH), dtype="int32")
    return texts, (texts[:, :8].sum(axis=1) > 4 * VOCABULARY).astype("int32")
