"""Trains by `fit`, knows nothing of keepfit, and is killed (or kills itself) at chosen moments, once at each.

    resumes.py '{"model": "cnn", "source": "arrays", "epochs": 3, "deaths": […], "marks": DIR, "out": FILE}'

"leak": MiB are held on to after every batch. "forgets": TensorFlow does not take a saved position back.
A death is [moment, n] or [moment, n, how]: the n-th time that moment comes, counted over all attempts of the run.
Moments: batch-begin, batch-end, validation, epoch-end, between-fits, writing.
How: kill, segfault, hang, term, abort, oom; save is no death, it asks for a state.
"""

import ctypes
import hashlib
import json
import os
import random
import signal
import sys
import threading
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

plan = {"model": "cnn", "source": "arrays", "epochs": 3, "seed": 1, "deaths": [], "fits": 1, **json.loads(sys.argv[1])}
PAUSE = float(plan.get("pause", 0.02))
if plan["seed"] is not None:
    keras.utils.set_random_seed(plan["seed"])


# --- dying -------------------------------------------------------------------------------------------------


def die(how):
    if how == "save":  # not a death: a state, at the next boundary between two steps
        return os.kill(os.getpid(), signal.SIGUSR1)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "abort":
        os.abort()
    if how == "oom":
        hoard = [np.ones((64 << 20) // 8) for _ in range(64)]  # 4 GiB
        print(len(hoard))
    if how == "hang":
        while True:
            time.sleep(3600)
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "term": signal.SIGTERM}[how])


def moment(name):
    """The count goes on over attempts: a file holds a byte for every time the moment came."""
    deaths = [death for death in plan["deaths"] if death[0] == name]
    if not deaths:
        return
    with open(os.path.join(plan["marks"], name), "ab") as file:
        file.write(b".")
        count = file.tell()
    for death in deaths:
        if death[1] == count:
            die(death[2] if len(death) > 2 else "kill")


held = []


class Moments(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        moment("batch-begin")

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(PAUSE)
        if plan.get("leak"):
            held.append(np.ones(plan["leak"] << 20, "uint8"))
        if plan.get("tell"):
            print("batch", batch, flush=True)
        moment("batch-end")

    def on_test_batch_end(self, batch, logs=None):
        moment("validation")

    def on_epoch_end(self, epoch, logs=None):
        moment("epoch-end")


def die_while_writing():
    states = os.environ.get("KEEPFIT_STATES")
    if not states or not any(death[0] == "writing" for death in plan["deaths"]):
        return

    def watch():
        seen = set(os.listdir(states)) if os.path.isdir(states) else set()  # what the last death has left
        while True:
            try:
                fresh = {name for name in os.listdir(states) if name.endswith(".new")} - seen
            except OSError:
                continue
            if fresh:
                seen |= fresh
                moment("writing")

    threading.Thread(target=watch, daemon=True).start()


# --- what is trained ---------------------------------------------------------------------------------------

data = np.random.RandomState(plan.get("data", 7))
ROWS, BATCH, CLASSES = 104, 8, plan.get("classes", 3)
labels = data.randint(0, 3, ROWS)


def cnn():
    x = data.rand(ROWS, 8, 8, 1).astype("float32")
    body = [
        layers.Conv2D(4, 3, activation="relu"),
        layers.BatchNormalization(),
        layers.GlobalAveragePooling2D(),
        layers.Dense(CLASSES),
    ]
    return x, keras.Sequential(body)


def transformer():
    x = data.randint(0, 20, (ROWS, 6))
    words = keras.Input((6,), dtype="int32")
    h = layers.Embedding(20, 8)(words)
    h = layers.LayerNormalization()(h + layers.Dropout(0.2)(layers.MultiHeadAttention(2, 4)(h, h)))
    h = layers.Dropout(0.2)(layers.GlobalAveragePooling1D()(h))
    return x, keras.Model(words, layers.Dense(CLASSES)(h))


def dense():
    """Nothing that depends on how a batch is split."""
    x = data.rand(ROWS, 10).astype("float32")
    return x, keras.Sequential([layers.Dense(12, activation="tanh"), layers.Dense(CLASSES)])


def lstm():
    x = data.rand(ROWS, 5, 4).astype("float32")
    return x, keras.Sequential([layers.LSTM(6, dropout=0.1), layers.Dense(CLASSES)])


def source(kind, x, y):
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": BATCH}
    if kind == "tfdata":
        return {"x": tf.data.Dataset.from_tensor_slices((x, y)).shuffle(50).batch(BATCH).prefetch(2)}
    if kind == "cached":
        return {"x": tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(50).batch(BATCH).prefetch(2)}
    if kind == "shuffled_and_cached":
        return {"x": tf.data.Dataset.from_tensor_slices((x, y)).shuffle(50).cache().batch(BATCH)}
    if kind == "pydataset":
        return {"x": Rows(x, y)}
    if kind == "generator":
        return {"x": generate(x, y), "steps_per_epoch": ROWS // BATCH}
    if kind == "from_generator":
        spec = (tf.TensorSpec(x.shape[1:], x.dtype), tf.TensorSpec((), y.dtype))
        rows = tf.data.Dataset.from_generator(lambda: zip(x, y), output_signature=spec)
        return {"x": rows.shuffle(60).batch(BATCH)}
    raise ValueError(kind)


class Rows(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y, self.order = x, y, np.random.permutation(len(x))

    def __len__(self):
        return len(self.x) // BATCH

    def __getitem__(self, index):
        rows = self.order[index * BATCH : (index + 1) * BATCH]
        x = self.x[rows]
        if x.dtype == np.float32 and plan["seed"] is not None:
            x = x + 0.01 * np.random.rand(*x.shape).astype("float32")
        return x, self.y[rows]

    def on_epoch_end(self):
        self.order = np.random.permutation(len(self.x))


def generate(x, y):
    while True:
        order = np.random.permutation(len(x))
        for start in range(0, len(x), BATCH):
            rows = order[start : start + BATCH]
            yield x[rows], y[rows]


class Census(keras.Model):
    """Counts how often each row is trained on, in a variable: part of what is saved."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.count = self.add_weight(shape=(ROWS,), initializer="zeros", trainable=False, name="count")

    def call(self, x, training=False):
        return self.inner(x, training=training)

    def train_step(self, batch):
        x, y = batch
        rows = tf.cast(tf.round(x[:, 0]), tf.int32)
        self.count.assign_add(tf.math.bincount(rows, minlength=ROWS, maxlength=ROWS, dtype=tf.float32))
        return super().train_step((x, y))


def census():
    """Unseeded: there is nothing to compare bits with, but every row must be trained on once an epoch."""
    x = np.stack([np.arange(ROWS), data.rand(ROWS)], axis=1).astype("float32")
    return x, Census(keras.Sequential([layers.Dense(4), layers.Dense(CLASSES)]))


def validation(kind, x):
    if kind == "tfdata":
        return tf.data.Dataset.from_tensor_slices((x[:24], labels[:24])).shuffle(24).batch(7)
    if kind == "pydataset":
        return Rows(x[:24], labels[:24])
    return x[:24], labels[:24]


MODELS = {"cnn": cnn, "transformer": transformer, "lstm": lstm, "dense": dense, "census": census}


def digest(arrays):
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def forget_positions():
    def refuse(iterator, state):
        raise ValueError("not from this pipeline")

    position = sys.modules.get("_keepfit.agent.tensorflow.position")
    if position is not None:
        position.restore = refuse


def main():
    die_while_writing()
    if plan.get("forgets"):
        forget_positions()
    x, model = MODELS[plan["model"]]()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **plan.get("compile", {}))
    csv = plan["out"] + ".csv"
    callbacks = [
        Moments(),
        keras.callbacks.EarlyStopping("val_loss", patience=50, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1),
        keras.callbacks.CSVLogger(csv),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.99),
    ]
    if plan["model"] == "census":
        del callbacks[1]  # it would bring the counts of its best epoch back
    histories = []
    fed = source(plan["source"], x, labels)
    for _ in range(plan["fits"]):
        history = model.fit(
            **fed, validation_data=validation(plan.get("validation", "arrays"), x), epochs=plan["epochs"], verbose=0,
            callbacks=callbacks,
        )  # fmt: skip
        histories.append(history.history)
        moment("between-fits")
    result = {
        "weights": digest(v.numpy() for v in model.weights),
        "optimizer": digest(v.numpy() for v in model.optimizer.variables),
        "metrics": digest(v.numpy() for v in model.metrics_variables),
        "norms": [float(np.linalg.norm(v.numpy())) for v in model.weights],
        "iterations": int(model.optimizer.iterations.numpy()),
        "history": histories,
        "csv": open(csv).read(),
        "evaluated": model.evaluate(x, labels, verbose=0),
        # What comes after must be as random as before; a generator is read ahead of by an unknown few.
        "random": None if plan["source"] in ("generator", "from_generator") else [random.random(), np.random.rand()],
    }
    if plan["model"] == "census":
        result["counts"] = sorted({int(count) for count in model.count.numpy()})
    with open(plan["out"], "w") as file:
        json.dump(result, file)
    print("done", flush=True)


main()
