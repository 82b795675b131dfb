"""Scripts to be planned: plans.py KIND FOLDER. What they write after their training call must never be there."""

import atexit
import os
import subprocess
import sys
import threading
import time

kind, folder = sys.argv[1:3]
after = os.path.join(folder, "after")


def write(path):
    with open(path, "w") as file:
        file.write("written")


write(os.path.join(folder, "before"))
if kind == "typed":
    typed = int(sys.stdin.readline())
if kind == "typed-width":
    width = int(sys.stdin.readline() or 16)
atexit.register(write, after)
if kind == "none":
    atexit.unregister(write)
    sys.exit(0)
if kind == "fails":
    raise ValueError("no data here")
if kind == "endless":
    while True:
        time.sleep(1)
if kind == "child" and len(sys.argv) < 4:
    import tensorflow

    subprocess.run([sys.executable, __file__, kind, folder, "inside"], check=False)
    write(after)
    sys.exit(0)

if kind.startswith("worker-") and __name__ == "__main__":  # trains in a process that multiprocessing has started
    import multiprocessing
    import runpy

    method = kind.removeprefix("worker-")
    if method == "fork-late":  # from one that has the framework already
        import keras

    inside = multiprocessing.get_context(method.removesuffix("-late"))
    sys.argv[1] = "fit"
    worker = inside.Process(target=runpy.run_path, args=(__file__,))
    worker.start()
    worker.join()
    write(after)
    sys.exit(0)

if kind == "legacy":
    import tf_keras

    old = tf_keras.Sequential([tf_keras.layers.Dense(1)])
    old.compile("sgd", "mse")
    old.fit([[1.0]], [[1.0]], verbose=0)
    write(after)
    sys.exit(0)

if kind == "other-backend":
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    other = keras.Sequential([keras.layers.Dense(1)])
    other.compile("sgd", "mse")
    other.fit([[1.0]], [[1.0]], verbose=0)
    write(after)
    sys.exit(0)

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

if kind == "greedy":
    held = np.ones((1 << 30,), "uint8")
    held += 1
if kind == "copies":  # of the data, while it is made ready: all gone before the training
    held = [np.ones((1 << 29,), "uint8") * 2 for _ in range(2)]
    held.clear()
keras.utils.set_random_seed(0)
rows, width = 512, width if kind == "typed-width" else 32
x = np.random.rand(rows, 48, 48, 3).astype("float32")
y = np.random.randint(0, 5, rows)
layers = keras.layers
inputs = keras.Input((48, 48, 3))
h = layers.Conv2D(width, 3, activation="relu")(inputs)
h = layers.Conv2D(width, 3, activation="relu")(h)
model = keras.Model(inputs, layers.Dense(5)(layers.GlobalAveragePooling2D()(h)))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam()
batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(256)


def step(images, labels):
    with tf.GradientTape() as tape:
        value = loss(labels, model(images, training=True))
    gradients = tape.gradient(value, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


class OwnStep(keras.Model):
    def train_step(self, data):
        images, labels = data
        with tf.GradientTape() as tape:
            value = self.compute_loss(images, labels, self(images, training=True))
        gradients = tape.gradient(value, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": value}


class Alone(keras.Model):
    """Nothing is wanted of it but what it is given."""

    def train_step(self, images):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(tf.square(self(images, training=True)))
        gradients = tape.gradient(value, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": value}


def sentences():
    """Of 5 to 200 words, the longest far from the first ones, in batches that are as long as their longest."""
    lengths = [5 + number % 20 for number in range(640)]
    lengths[500] = 200
    words = tf.data.Dataset.from_generator(
        lambda: ((np.ones(length, "int32"), length % 2) for length in lengths),
        output_signature=(tf.TensorSpec((None,), tf.int32), tf.TensorSpec((), tf.int32)),
    )
    return words.padded_batch(64, padded_shapes=((None,), ()))


def reader():
    words = keras.Input((None,), dtype="int32")
    h = layers.Dense(256, activation="relu")(layers.Embedding(10, 64)(words))
    return keras.Model(words, layers.Dense(5)(layers.GlobalAveragePooling1D()(h)))


def train():
    try:
        if kind == "loop":
            for images, labels in batches:
                step(images, labels)
        elif kind == "compiled-loop":
            compiled = tf.function(step)
            for images, labels in batches:
                compiled(images, labels)
        elif kind == "sentences":
            own = reader()
            own.compile("adam", loss)
            own.fit(sentences(), epochs=2, verbose=0)
        elif kind == "arrays":  # many batches, and it is told how many of them there are
            from keras.src.backend.tensorflow import trainer

            class Counted(trainer.TFEpochIterator):
                def __init__(self, *given, **named):
                    super().__init__(*given, **named)
                    with open(os.path.join(folder, "steps"), "a") as file:
                        print(self.num_batches, file=file)

            trainer.TFEpochIterator = Counted
            model.compile("adam", loss)
            model.fit(np.tile(x, (4, 1, 1, 1)), np.tile(y, 4), batch_size=128, verbose=0)
        elif kind == "callbacks":  # that empty a file, and write another, before the first step

            class Writes(keras.callbacks.Callback):
                def set_model(self, model):
                    write(after)

            model.compile("adam", loss)
            log = keras.callbacks.CSVLogger(os.path.join(folder, "log.csv"))
            model.fit(x, y, batch_size=256, callbacks=[log, Writes()])
        elif kind == "typed":
            model.compile("adam", loss)
            model.fit(x[:typed], y[:typed], batch_size=64, verbose=0)
        elif kind == "own-step":
            own = OwnStep(inputs, model.output)
            own.compile("adam", loss)
            own.fit(x, y, batch_size=256, verbose=0)
        elif kind == "no-labels":
            own = Alone(inputs, model.output)
            own.compile("adam")
            own.fit(x, batch_size=256, verbose=0)
        elif kind == "fixed":
            given = keras.Input(batch_shape=(64, 48, 144))
            own = keras.Model(given, layers.Dense(5)(layers.LSTM(8, stateful=True)(given)))
            own.compile("adam", loss)
            own.fit(batches.unbatch().map(lambda a, b: (tf.reshape(a, [48, 144]), b)).batch(64, drop_remainder=True))
        elif kind == "bad-generator":

            def nothing():
                raise ValueError("\x1b[1mno\x1b[0m rows in \x1b]0;this\x07 file")
                yield

            model.compile("adam", loss)
            model.fit(nothing(), steps_per_epoch=2, verbose=0)
        elif kind == "large-arrays":  # which fit copies
            model.compile("adam", loss)
            model.fit(np.tile(x, (14, 1, 1, 1)), np.tile(y, 14), batch_size=8, verbose=0)
        elif kind == "bad-data":
            model.compile("adam", loss)
            model.fit(batches.map(lambda a, b: (tf.ensure_shape(tf.gather(a, [999]), [1, 48, 48, 3]), b)), verbose=0)
        elif kind == "short":
            model.compile("adam", loss)
            model.fit(x[:100], y[:100], batch_size=1024, verbose=0)
        elif kind == "unbuilt":
            own = keras.Sequential([layers.Conv2D(width, 3), layers.GlobalAveragePooling2D(), layers.Dense(5)])
            own.compile("adam", loss)
            own.fit(x, y, batch_size=256, verbose=0)
        elif kind == "several":
            other = keras.Sequential([keras.Input((48, 48, 3)), layers.Flatten(), layers.Dense(5)])
            for each in (model, other):
                each.compile("adam", loss)
                each.fit(x, y, batch_size=256, verbose=0)
        elif kind == "replicas":
            with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
                own = keras.models.clone_model(model)
                own.compile("adam", loss)
            own.fit(batches, verbose=0)
        else:
            model.compile(optimizer, loss, run_eagerly=kind == "eager")
            if kind == "one-batch":
                model.train_on_batch(x[:256], y[:256])
            elif kind == "validation":
                held_out = {"validation_data": (x, y), "validation_batch_size": 512}
                model.fit(x[:64], y[:64], batch_size=16, epochs=2, verbose=0, **held_out)
            elif kind == "many":  # steps, with blocks that malloc would keep
                model.fit(x, y, batch_size=64, epochs=3, verbose=0)
            else:
                model.fit(x, y, batch_size=256, epochs=2, verbose=0)
    finally:
        write(after)


if kind == "thread":
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
else:
    train()
with open("/proc/self/status") as file:
    peak = next(line for line in file if line.startswith("VmHWM"))
print("peak", 1024 * int(peak.split()[1]))
