"""A training on two virtual CPUs at once."""

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(1)
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    layers = keras.layers
    model = keras.Sequential([keras.Input((8,)), layers.Dense(16), layers.BatchNormalization(), layers.Dense(1)])
    model.compile("adam", "mse")
x = np.random.RandomState(0).rand(128, 8).astype("float32")
history = model.fit(x, x.sum(1), batch_size=32, epochs=2, verbose=0)
print("loss", history.history["loss"])
