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

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

if kind == "greedy":
    held = np.ones((1 << 30,), "uint8")
    held += 1
keras.utils.set_random_seed(0)
rows, width = 512, 32
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


def train():
    try:
        if kind == "loop":
            for images, labels in batches:
                step(images, labels)
        elif kind == "compiled-loop":
            compiled = tf.function(step)
            for images, labels in batches:
                compiled(images, labels)
        else:
            model.compile(optimizer, loss, run_eagerly=kind == "eager")
            if kind == "one-batch":
                model.train_on_batch(x[:256], y[:256])
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
