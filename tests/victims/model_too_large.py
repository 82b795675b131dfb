"""A model whose weights, gradients and optimizer state alone are more than its budget."""

import keras
import numpy as np

model = keras.Sequential([keras.Input((4000,)), keras.layers.Dense(8000), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(np.zeros((16, 4000), "float32"), np.zeros((16, 1), "float32"), batch_size=16, verbose=0)
