"""Legacy Keras, as Hugging Face's TensorFlow models need it."""

import numpy as np
import tf_keras

model = tf_keras.Sequential([tf_keras.layers.Dense(4, input_shape=(3,)), tf_keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(np.zeros((64, 3)), np.zeros((64, 1)), batch_size=16, epochs=2, verbose=0)
