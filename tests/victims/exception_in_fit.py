"""Labels of the wrong shape: the framework raises inside `fit`."""

import keras
import numpy as np

x = np.ones((64, 4), "float32")
y = np.ones((64, 7), "float32")
model = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
model.compile("sgd", "categorical_crossentropy")
model.fit(x, y, epochs=1, verbose=0)
