"""Trainings with something wrong in their data: poisoned_fit.py KIND"""

import os
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf

kind = sys.argv[1]
keras.utils.set_random_seed(1)
data = np.random.RandomState(0)
x, y = data.rand(640, 8).astype("float32"), data.randint(0, 3, 640)
fit = {"batch_size": 8, "epochs": 3}
compiled = {}
layers = keras.layers
model = keras.Sequential([layers.Dense(16, activation="relu"), layers.BatchNormalization(), layers.Dense(3)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

if kind in ("one", "one-of-eight"):
    x[119, 3] = np.nan
    if kind == "one-of-eight":
        compiled["steps_per_execution"] = 8
if kind == "all":
    x[:] = np.nan
if kind == "row":  # batches 30 to 45 of the second epoch, after there are states to go back to
    fit["shuffle"] = False

    class Rows(keras.utils.PyDataset):
        epoch = 0

        def __len__(self):
            return 80

        def __getitem__(self, index):
            rows = slice(8 * index, 8 * index + 8)
            bad = np.nan if self.epoch == 1 and 30 <= index < 45 else 0
            return x[rows] + np.float32(bad), y[rows]

        def on_epoch_end(self):
            self.epoch += 1


if kind == "label":
    y[333] = 3
if kind == "logits":
    loss = "sparse_categorical_crossentropy"
if kind == "dead":
    model = keras.Sequential(
        [layers.Dense(16, "relu", bias_initializer=keras.initializers.Constant(-50)), layers.Dense(3)]
    )
    fit["epochs"] = 8
if kind == "vanishing":
    model = keras.Sequential([*[layers.Dense(16, activation="sigmoid") for _ in range(40)], layers.Dense(3)])
    fit["epochs"] = 8
model.compile("adam", loss, metrics=["accuracy"], **compiled)

if kind == "picture":
    folder = tempfile.mkdtemp()
    for number in range(64):
        content = tf.io.encode_jpeg(data.randint(0, 255, (8, 8, 3)).astype("uint8")).numpy()
        with open(os.path.join(folder, f"{number:03d}.jpg"), "wb") as file:
            file.write(content if number != 37 else content[:20])

    def load(path):
        picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.reshape(tf.cast(picture, tf.float32) / 255.0, (192,)), 1

    names = tf.data.Dataset.list_files(folder + "/*.jpg", seed=1)
    history = model.fit(names.map(load, num_parallel_calls=2).batch(9), epochs=2, verbose=0)
elif kind == "row":
    history = model.fit(Rows(), epochs=3, verbose=0, shuffle=False)
elif kind in ("class", "class-of-arrays"):
    y[y == 1] = 2
    source = tf.data.Dataset.from_tensor_slices((x, y)).batch(8) if kind == "class" else x
    history = model.fit(source, None if kind == "class" else y, epochs=2, verbose=0)
else:
    history = model.fit(x, y, verbose=0, **fit)
print("loss", history.history["loss"])
print("epochs", len(history.history["loss"]), "rate", float(model.optimizer.learning_rate.numpy()))
print(
    "finite",
    all(np.isfinite(weight).all() for weight in model.get_weights()),
    np.isfinite(history.history["loss"]).all(),
)
