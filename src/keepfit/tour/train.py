"""The tour's training: a BERT-style encoder at batch 1024, far too much for its memory. It knows nothing of keepfit."""

import keras
import numpy as np

BATCH, STEPS, LENGTH, WIDTH, WORDS = 1024, 3, 64, 96, 2000
layers = keras.layers

keras.utils.set_random_seed(0)
tokens = np.random.randint(1, WORDS, (STEPS * BATCH, LENGTH))
labels = (tokens[:, :8].sum(axis=1) > 4 * WORDS).astype("int32")

words = keras.Input((LENGTH,), dtype="int32")
hidden = layers.LayerNormalization()(layers.Embedding(WORDS, WIDTH)(words))
for _ in range(2):
    attention = layers.MultiHeadAttention(num_heads=4, key_dim=WIDTH // 4)(hidden, hidden)
    hidden = layers.LayerNormalization()(hidden + attention)
    wide = layers.Dense(4 * WIDTH, activation="gelu")(hidden)
    hidden = layers.LayerNormalization()(hidden + layers.Dense(WIDTH)(wide))
model = keras.Model(words, layers.Dense(2)(layers.GlobalAveragePooling1D()(hidden)))
model.compile(
    keras.optimizers.AdamW(1e-3, global_clipnorm=1.0),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
print(f"encoder with {model.count_params():,} weights, batch {BATCH}", flush=True)
model.fit(tokens, labels, batch_size=BATCH, epochs=1, verbose=2)
