"""A model that is never called as a whole, with a `train_step` and two optimizers of its own; dies once.

two_optimizers.py OUT [MARK]
"""

import hashlib
import os
import signal
import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(3)


class Twins(keras.Model):
    def __init__(self):
        super().__init__()
        self.one = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), keras.layers.Dropout(0.2)])
        self.other = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        self.tracker = keras.metrics.Mean(name="loss")

    def compile(self, one_optimizer, other_optimizer):
        super().compile()
        self.one_optimizer, self.other_optimizer = one_optimizer, other_optimizer

    @property
    def metrics(self):
        return [self.tracker]

    def train_step(self, x):
        for net, optimizer in ((self.one, self.one_optimizer), (self.other, self.other_optimizer)):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self.other(self.one(x, training=True)) - 1.0))
            optimizer.apply(tape.gradient(loss, net.trainable_weights), net.trainable_weights)
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}


class Dies(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.05)
        steps = int(self.model.one_optimizer.iterations.numpy())
        if len(sys.argv) > 2 and steps == 35 and not os.path.exists(sys.argv[2]):
            open(sys.argv[2], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)


model = Twins()
model.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.01, momentum=0.9))
x = np.random.rand(80, 4).astype("float32")
history = model.fit(x, batch_size=8, epochs=5, verbose=0, callbacks=[Dies()])
total = hashlib.sha256(repr(history.history).encode())
for variable in (*model.weights, *model.one_optimizer.variables, *model.other_optimizer.variables):
    total.update(variable.numpy().tobytes())
with open(sys.argv[1], "w") as file:
    file.write(total.hexdigest())
