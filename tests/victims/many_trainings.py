"""More than thirty small trainings, each for the one Keras feature in its name; prints a digest of each.

many_trainings.py OUT.json FOLDER
"""

import glob
import hashlib
import json
import os
import sys
import threading

import keras
import numpy as np
import tensorflow as tf
from keras import callbacks, layers

ROWS = 48
TRAININGS = {}
folder = sys.argv[2]


def training(function):
    TRAININGS[function.__name__] = function
    return function


def data(seed=0):
    draw = np.random.RandomState(seed)
    return draw.rand(ROWS, 6).astype("float32"), draw.randint(0, 3, ROWS)


def model(*more, **compiled):
    net = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), *more, layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(**{"optimizer": "adam", "loss": loss, "metrics": ["accuracy"], **compiled})
    return net


def fit(net, *called, fed=None, **options):
    x, y = data()
    fed = {"x": x, "y": y, "batch_size": 8} if fed is None else fed
    history = net.fit(**fed, epochs=3, verbose=0, callbacks=list(called), **options)
    return net, history


def validated(net, *called, **options):
    x, y = data(1)
    return fit(net, *called, validation_data=(x, y), **options)


def file(name):
    return os.path.join(folder, name)


# --- callbacks, one of every kind ------------------------------------------------------------------------------


@training
def model_checkpoint():
    return validated(
        model(),
        callbacks.ModelCheckpoint(file("best.weights.h5"), "val_loss", save_best_only=True, save_weights_only=True),
    )


@training
def backup_and_restore():
    return fit(model(), callbacks.BackupAndRestore(file("backup")))


@training
def early_stopping_restores_the_best():
    stop = callbacks.EarlyStopping("val_loss", patience=0, min_delta=1.0, restore_best_weights=True)
    net, history = validated(model(), stop)
    return net, history, stop.stopped_epoch


@training
def reduce_lr_on_plateau():
    return validated(model(), callbacks.ReduceLROnPlateau("val_loss", patience=1, min_delta=1.0))


@training
def learning_rate_scheduler():
    return fit(model(), callbacks.LearningRateScheduler(lambda epoch, rate: rate / (epoch + 1)))


@training
def csv_logger():
    return fit(model(), callbacks.CSVLogger(file("log.csv")))


@training
def tensorboard():
    return fit(model(), callbacks.TensorBoard(file("board"), histogram_freq=0))


@training
def terminate_on_nan():
    return fit(model(), callbacks.TerminateOnNaN())


@training
def lambda_callback():
    said = []
    called = callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: said.append([epoch, logs["loss"]]))
    net, history = fit(model(), called)
    return net, history, said


@training
def swap_ema_weights():
    optimizer = keras.optimizers.Adam(use_ema=True, ema_momentum=0.9)
    return fit(model(optimizer=optimizer), callbacks.SwapEMAWeights(swap_on_epoch=True))


@training
def own_callback_at_every_batch():
    class Own(callbacks.Callback):
        seen = ()

        def on_train_batch_end(self, batch, logs=None):
            self.seen += ((batch, logs["loss"]),)

    own = Own()
    net, history = fit(model(), own)
    return net, history, own.seen


@training
def callback_that_stops_in_an_epoch():
    class Stops(callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 3

    return fit(model(), Stops())


@training
def history_given_twice():
    net = model()
    fit(net)
    return fit(net, callbacks.History())


# --- ways to train ---------------------------------------------------------------------------------------------


@training
def several_fits():
    net = model()
    _, first = fit(net)
    _, second = fit(net, initial_epoch=1)
    return net, second, first.history


@training
def fit_in_a_loop():
    net, losses = model(), []
    for _ in range(4):
        losses.append(fit(net)[1].history["loss"])
    return net, losses


@training
def transfer_learning():
    net = model()
    fit(net)
    net.layers[0].trainable = False
    net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return fit(net)


@training
def two_models_in_turn():
    one, other = model(), model(layers.Dense(4))
    for _ in range(2):
        fit(one)
        fit(other)
    return one, other


@training
def train_on_batch():
    net, (x, y) = model(), data()
    return net, [net.train_on_batch(x[i : i + 8], y[i : i + 8]) for i in range(0, ROWS, 8)]


@training
def fit_in_a_thread():
    net, kept = model(), []
    thread = threading.Thread(target=lambda: kept.append(fit(net)[1]))
    thread.start()
    thread.join()
    return net, kept[0]


@training
def fit_inside_a_callback():
    inner = model()

    class Nested(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            fit(inner)

    net, history = fit(model(), Nested())
    return net, history, inner


@training
def own_train_step():
    class Own(keras.Sequential):
        def train_step(self, batch):
            x, y = batch
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
            return {"loss": loss}

    net = Own([layers.Dense(3)])
    net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return fit(net)


@training
def unbuilt_subclass():
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.a, self.drop, self.b = layers.Dense(5), layers.Dropout(0.3), layers.Dense(3)

        def call(self, x, training=False):
            return self.b(self.drop(self.a(x), training=training))

    net = Net()
    net.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return fit(net)


@training
def run_eagerly():
    return fit(model(run_eagerly=True))


@training
def jit_compile():
    return fit(model(jit_compile=True))


@training
def steps_per_execution():
    return fit(model(steps_per_execution=4))


@training
def dropout():
    return fit(model(layers.Dropout(0.5)))


@training
def batch_normalization():
    return fit(model(layers.BatchNormalization()))


@training
def mixed_precision():
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        return fit(model())
    finally:
        keras.mixed_precision.set_global_policy("float32")


@training
def loss_scale_optimizer():
    return fit(model(optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())))


@training
def learning_rate_schedule():
    return fit(model(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.01, 10))))


@training
def class_weight():
    return fit(model(), class_weight={0: 1.0, 1: 2.0, 2: 0.5})


@training
def sample_weight():
    return fit(model(), sample_weight=np.linspace(0, 1, ROWS))


@training
def validation_split():
    return fit(model(), validation_split=0.25, validation_freq=2)


@training
def augmentation_layers():
    x = np.random.RandomState(0).rand(ROWS, 8, 8, 3).astype("float32")
    net = keras.Sequential([layers.RandomFlip(), layers.RandomRotation(0.1), layers.Flatten(), layers.Dense(3)])
    net.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return fit(net, fed={"x": x, "y": data()[1], "batch_size": 8})


# --- sources of batches ----------------------------------------------------------------------------------------


@training
def tf_data_shuffled():
    return fit(model(), fed={"x": tf.data.Dataset.from_tensor_slices(data()).shuffle(20).batch(8)})


@training
def tf_data_repeated():
    rows = tf.data.Dataset.from_tensor_slices(data()).shuffle(20).repeat().batch(7)
    return fit(model(), fed={"x": rows, "steps_per_epoch": 5})


@training
def tf_data_of_unknown_length():
    rows = tf.data.Dataset.from_tensor_slices(data()).filter(lambda x, y: y < 2).batch(5)
    return fit(model(), fed={"x": rows})


@training
def generator():
    def batches():
        while True:
            x, y = data()
            rows = np.random.permutation(ROWS)[:8]
            yield x[rows], y[rows]

    return fit(model(), fed={"x": batches(), "steps_per_epoch": 6})


@training
def py_dataset():
    class Rows(keras.utils.PyDataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            x, y = data()
            return x[index * 8 : index * 8 + 8] + np.random.rand(8, 6).astype("float32"), y[index * 8 : index * 8 + 8]

    return fit(model(), fed={"x": Rows()})


@training
def dictionaries_and_several_outputs():
    a, b = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    h = layers.Dense(4)(layers.concatenate([a, b]))
    net = keras.Model({"a": a, "b": b}, {"c": layers.Dense(3, name="c")(h), "d": layers.Dense(1, name="d")(h)})
    net.compile("adam", {"c": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "d": "mse"})
    x, y = data()
    return fit(net, fed={"x": {"a": x, "b": x}, "y": {"c": y, "d": x[:, :1]}, "batch_size": 8})


# --- what came of it -------------------------------------------------------------------------------------------


def told(thing):
    if isinstance(thing, keras.Model):
        optimizer = getattr(thing.optimizer, "variables", ())
        return [v.numpy().astype("float64").tolist() for v in (*thing.weights, *optimizer, *thing.metrics_variables)]
    if isinstance(thing, callbacks.History):
        return [thing.history, thing.epoch]
    if isinstance(thing, (list, tuple)):
        return [told(item) for item in thing]
    if isinstance(thing, dict):
        return {key: told(value) for key, value in thing.items()}
    return thing


def main():
    found = {}
    for name, function in TRAININGS.items():
        keras.utils.set_random_seed(5)
        result = told(function())
        after = None if name == "generator" else np.random.rand()  # Keras reads ahead of a generator
        text = json.dumps([result, after], default=float)
        found[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    for name in ("log.csv", "best.weights.h5"):
        with open(file(name), "rb") as opened:
            content = opened.read()
        found["file " + name] = hashlib.sha256(content).hexdigest()[:16] if name.endswith("csv") else len(content)
    found["files"] = sorted(os.path.basename(path) for path in glob.glob(file("*")))
    with open(sys.argv[1], "w") as opened:
        json.dump(found, opened)


main()
