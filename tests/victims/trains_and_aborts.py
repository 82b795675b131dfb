"""A training that ends well, and a library that aborts the interpreter afterwards."""

import os

import keras
import numpy as np

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros((64, 4)), np.zeros((64, 1)), verbose=0)
print("trained", flush=True)
os.abort()
