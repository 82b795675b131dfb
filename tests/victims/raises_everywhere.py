"""Errors in every place of a training where a program can make one; each is printed as a person would see it."""

import os
import re
import signal
import sys
import time
import traceback
import warnings

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
where = ""


def fails(place):
    if place == where:
        raise ValueError(f"in {place}")


class Calls(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        fails("callback")
        if batch == 3 and where == "Ctrl-C":
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)


class Layer(keras.layers.Layer):
    def call(self, x):
        fails("layer")
        return x


class Model(keras.Sequential):
    def train_step(self, data):
        fails("train_step")
        return super().train_step(data)


class Metric(keras.metrics.Mean):
    def update_state(self, *args, **kwargs):
        fails("metric")
        return super().update_state(args[0])


def loss(y, p):
    fails("loss")
    return keras.ops.mean((y - p) ** 2)


def batches():
    for number in range(10):
        if number == 4:
            fails("generator")
        yield np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


def fit():
    model = Model([keras.Input((4,)), Layer(), keras.layers.Dense(1)])
    model.compile("sgd", loss, metrics=[Metric()])
    if where == "generator":
        return model.fit(batches(), verbose=0)
    if where == "shape":
        return model.fit(np.ones((80, 5)), np.ones((80, 1)), verbose=0)
    if where == "predict":
        return model.predict(np.ones((8, 5)), verbose=0)
    if where == "evaluate":
        return model.evaluate(np.ones((8, 5)), np.ones((8, 1)), verbose=0)
    if where == "arguments":
        return model.fit(np.ones((8, 4)), np.ones((8, 1)), batch_sise=3)
    return model.fit(np.ones((80, 4)), np.ones((80, 1)), batch_size=8, verbose=0, callbacks=[Calls()])


def build():
    if where == "compile":
        Model([keras.layers.Dense(1)]).compile("no such optimizer", "no such loss")
    if where == "add_weight":
        Layer().add_weight(shape="x")
    if where == "functional":
        keras.Model(inputs=keras.Input((3,)), outputs="no tensor")
    if where == "save":
        Model([keras.Input((4,)), keras.layers.Dense(1)]).save("/nonexistent/folder/model.keras")


def loop():
    variable = tf.Variable(1.0)
    optimizer = keras.optimizers.SGD()

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            fails("tape")
            lost = tf.reduce_sum(x) * variable
        return tape.gradient(lost, variable)

    for x in tf.data.Dataset.range(4).map(lambda n: tf.cast(n, tf.float32) if where != "map" else tf.ones((2,)) + n):
        if where == "eager":
            fails("eager")
        optimizer.apply_gradients([(step(x), variable)] if where != "apply" else [(None, variable)])


def shown():
    """Without what counts graphs and files, and TensorFlow's own filter of its frames."""
    lines = [re.sub(r"(?<=_file)\w+|(?<=_iterator)_\d+", "", line) for line in traceback.format_exc().splitlines()]
    frames = [line for line in lines if line.startswith("  File") and "util/traceback_utils" not in line]
    return frames + lines[-1:]


for where in sys.argv[1:]:
    try:
        loop() if where in ("tape", "map", "eager", "apply") else fit()
        if where in ("compile", "add_weight", "functional", "save"):
            build()
    except BaseException:
        print(where, *shown(), sep="\n")

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    where = ""
    fit()
    warnings.warn_explicit("end", UserWarning, "x", 1)
    print(*sorted({(w.category.__name__, w.filename, w.lineno) for w in told}), sep="\n")
