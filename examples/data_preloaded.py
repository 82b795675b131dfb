"""A corpus tokenised into one dense array before the first step: scenario "the whole corpus up front"."""

import keras
import numpy as np

documents, length, copies = 40_000, 512, 40
tokens = [np.random.randint(0, 30_000, (documents, length), dtype="int32") for _ in range(copies)]
corpus = np.concatenate(tokens)

model = keras.Sequential(
    [keras.layers.Embedding(30_000, 16), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(corpus, np.zeros(len(corpus)), batch_size=64)
