"""Healthy trainings of many kinds, a few hundred steps each: nothing is wrong with any of them.

healthy_runs.py [NAME …]
"""

import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

ROWS = 512
random = np.random.RandomState(0)
TABLE = random.randn(ROWS, 10).astype("float32")
TRUTH = TABLE @ random.randn(10, 3).astype("float32")
CLASSES = TRUTH.argmax(1)
YES = (TRUTH[:, :1] > 0).astype("float32")
NUMBER = TRUTH[:, :1] / 3
PICTURES = np.clip(0.5 + 0.2 * random.randn(ROWS, 12, 12, 3), 0, 1).astype("float32")
PICTURES[:, :6, :6, 0] += (CLASSES == 1)[:, None, None] * 0.3
SERIES = np.cumsum(random.randn(ROWS, 16, 4), axis=1).astype("float32") / 4
AHEAD = SERIES[:, -1, :1] - SERIES[:, 0, :1]
WORDS = random.randint(1, 50, (ROWS, 12))
WORDS[:, 8:] *= random.randint(0, 2, (ROWS, 1))  # padded with 0
TOPIC = (WORDS[:, :4].mean(1) > 25).astype("int32")
LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
BINARY = keras.losses.BinaryCrossentropy(from_logits=True)

RUNS = {}


def run(make):
    RUNS[make.__name__] = make
    return make


def mlp(activation="relu", out=3, norm=None, width=24, depth=2, **dense):
    parts = []
    for _ in range(depth):
        parts += [layers.Dense(width, **dense), *([norm()] if norm else []), layers.Activation(activation)]
    return keras.Sequential([*parts, layers.Dense(out)])


def trained(model, x, y, loss=LOGITS, optimizer="adam", epochs=14, batch_size=16, fit=None, **compiled):
    model.compile(optimizer, loss, **compiled)
    return model.fit(x, y, epochs=epochs, batch_size=batch_size, verbose=0, **(fit or {}))


for kind in ("relu", "tanh", "sigmoid", "gelu", "silu", "elu", "softplus"):
    RUNS[f"activation_{kind}"] = lambda kind=kind: trained(mlp(kind), TABLE, CLASSES)
for name in ("SGD", "RMSprop", "Adagrad", "Adamax", "Nadam", "AdamW", "Adafactor", "Ftrl", "Adadelta"):
    RUNS[f"optimizer_{name}"] = lambda name=name: trained(
        mlp(), TABLE, CLASSES, optimizer=getattr(keras.optimizers, name)(learning_rate=0.01)
    )
for name in ("mse", "mae", "huber", "log_cosh"):
    RUNS[f"loss_{name}"] = lambda name=name: trained(mlp(out=1), TABLE, NUMBER, name)


@run
def lion():
    trained(mlp(), TABLE, CLASSES, optimizer=keras.optimizers.Lion(0.001))


@run
def momentum():
    trained(mlp(), TABLE, CLASSES, optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True))


@run
def tiny_rate():
    trained(mlp(), TABLE, CLASSES, optimizer=keras.optimizers.Adam(1e-5))


@run
def large_rate_that_converges():
    trained(keras.Sequential([layers.Dense(1)]), TABLE / 4, NUMBER, "mse", keras.optimizers.SGD(1.0))


@run
def warm_up_and_cosine():
    rate = keras.optimizers.schedules.CosineDecay(0.0, 400, warmup_target=0.02, warmup_steps=60)
    trained(mlp(), TABLE, CLASSES, optimizer=keras.optimizers.Adam(rate))


@run
def batch_norm():
    trained(mlp(norm=layers.BatchNormalization), TABLE, CLASSES)


@run
def layer_norm():
    trained(mlp(norm=layers.LayerNormalization), TABLE, CLASSES)


@run
def selu_and_alpha_dropout():
    model = keras.Sequential([layers.Dense(24, "selu", kernel_initializer="lecun_normal"), layers.AlphaDropout(0.1),
                              layers.Dense(3)])  # fmt: skip
    trained(model, TABLE, CLASSES)


@run
def thirty_layers():
    trained(mlp(norm=layers.BatchNormalization, depth=30, kernel_initializer="he_normal"), TABLE, CLASSES, epochs=10)


@run
def skip_connections():
    inputs = keras.Input((10,))
    h = layers.Dense(16)(inputs)
    for _ in range(6):
        h = h + layers.Dense(16)(layers.Dense(16, "relu")(h))
    trained(keras.Model(inputs, layers.Dense(3)(h)), TABLE, CLASSES)


@run
def pictures():
    parts = [layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(), layers.Conv2D(8, 3, activation="relu"),
             layers.Flatten(), layers.Dense(3)]  # fmt: skip
    trained(keras.Sequential(parts), PICTURES, CLASSES, epochs=10)


@run
def pictures_of_bytes():
    bytes_ = (PICTURES * 255).clip(0, 255).astype("uint8")
    first = [layers.Rescaling(1 / 255), layers.SeparableConv2D(8, 3, activation="relu")]
    parts = [*first, layers.GlobalAveragePooling2D(), layers.Dense(3)]
    trained(keras.Sequential(parts), bytes_, CLASSES, epochs=10)


@run
def augmented():
    parts = [layers.RandomFlip(), layers.RandomRotation(0.1), layers.Conv2D(8, 3, activation="relu"),
             layers.GlobalAveragePooling2D(), layers.Dense(3)]  # fmt: skip
    trained(keras.Sequential(parts), PICTURES, CLASSES, epochs=6)


@run
def autoencoder():
    parts = [layers.Flatten(), layers.Dense(16, "relu"), layers.Dense(432, "sigmoid"), layers.Reshape((12, 12, 3))]
    trained(keras.Sequential(parts), PICTURES.clip(0, 1), PICTURES.clip(0, 1), "mse", epochs=10)


@run
def segmentation_with_dice():
    def dice(truth, guess):
        axes = (1, 2, 3)
        return 1 - (2 * ops.sum(truth * guess, axes) + 1) / (ops.sum(truth, axes) + ops.sum(guess, axes) + 1)

    mask = (PICTURES.mean(-1, keepdims=True) > 0.5).astype("float32")
    parts = [layers.Conv2D(8, 3, padding="same", activation="relu"), layers.Conv2D(1, 1, activation="sigmoid")]
    trained(keras.Sequential(parts), PICTURES, mask, dice, epochs=8)


@run
def variational():
    class Sampling(layers.Layer):
        def call(self, inputs):
            mean, spread = inputs
            self.add_loss(-0.01 * ops.mean(1 + spread - mean**2 - ops.exp(spread)))
            return mean + ops.exp(0.5 * spread) * keras.random.normal(ops.shape(mean))

    inputs = keras.Input((10,))
    h = layers.Dense(16, "relu")(inputs)
    code = Sampling()([layers.Dense(4)(h), layers.Dense(4)(h)])
    trained(keras.Model(inputs, layers.Dense(10)(layers.Dense(16, "relu")(code))), TABLE, TABLE, "mse")


for name, layer in (("lstm", layers.LSTM), ("gru", layers.GRU), ("simple_rnn", layers.SimpleRNN)):
    RUNS[f"recurrent_{name}"] = lambda layer=layer: trained(
        keras.Sequential([layer(12), layers.Dense(1)]), SERIES, AHEAD, "mse", epochs=10
    )


@run
def bidirectional():
    parts = [layers.Bidirectional(layers.LSTM(8, return_sequences=True)), layers.GlobalMaxPooling1D(), layers.Dense(1)]
    trained(keras.Sequential(parts), SERIES, AHEAD, "mse", epochs=8)


@run
def causal_convolutions():
    parts = [layers.Conv1D(8, 3, padding="causal", dilation_rate=rate, activation="relu") for rate in (1, 2, 4)]
    trained(
        keras.Sequential([*parts, layers.GlobalAveragePooling1D(), layers.Dense(1)]), SERIES, AHEAD, "mse", epochs=8
    )


@run
def words_with_sparse_gradients():
    model = keras.Sequential([layers.Embedding(5000, 8), layers.GlobalAveragePooling1D(), layers.Dense(2)])
    trained(model, WORDS, TOPIC)


@run
def masked_words():
    trained(
        keras.Sequential([layers.Embedding(50, 8, mask_zero=True), layers.LSTM(8), layers.Dense(2)]),
        WORDS,
        TOPIC,
        epochs=8,
    )


@run
def transformer():
    inputs = keras.Input((12,), dtype="int32")
    h = layers.Embedding(50, 16)(inputs)
    for _ in range(2):
        h = layers.LayerNormalization()(h + layers.MultiHeadAttention(2, 8, dropout=0.1)(h, h))
        h = layers.LayerNormalization()(h + layers.Dense(16)(layers.Dense(32, "gelu")(h)))
    trained(keras.Model(inputs, layers.Dense(2)(layers.GlobalAveragePooling1D()(h))), WORDS, TOPIC, epochs=8)


@run
def two_outputs():
    inputs = keras.Input((10,))
    h = layers.Dense(16, "relu")(inputs)
    model = keras.Model(inputs, {"kind": layers.Dense(3, name="kind")(h), "size": layers.Dense(1, name="size")(h)})
    trained(model, TABLE, {"kind": CLASSES, "size": NUMBER}, {"kind": LOGITS, "size": "mse"})


@run
def two_inputs():
    a, b = keras.Input((10,)), keras.Input((12, 12, 3))
    h = layers.Concatenate()([layers.Dense(8, "relu")(a), layers.Dense(8, "relu")(layers.Flatten()(b))])
    trained(keras.Model([a, b], layers.Dense(3)(h)), [TABLE, PICTURES], CLASSES)


@run
def binary_logits():
    trained(mlp(out=1), TABLE, YES, BINARY)


@run
def binary_sigmoid():
    trained(keras.Sequential([layers.Dense(16, "relu"), layers.Dense(1, "sigmoid")]), TABLE, YES, "binary_crossentropy")


@run
def one_hot_softmax():
    model = keras.Sequential([layers.Dense(16, "relu"), layers.Dense(3, "softmax")])
    trained(model, TABLE, keras.utils.to_categorical(CLASSES, 3), "categorical_crossentropy")


@run
def focal():
    model = keras.Sequential([layers.Dense(16, "relu"), layers.Dense(1, "sigmoid")])
    trained(model, TABLE, YES, keras.losses.BinaryFocalCrossentropy())


@run
def hinge():
    trained(keras.Sequential([layers.Dense(16, "relu"), layers.Dense(1, "tanh")]), TABLE, 2 * YES - 1, "hinge")


@run
def poisson():
    counts = random.poisson(np.exp(np.clip(NUMBER, -2, 2))).astype("float32")
    trained(keras.Sequential([layers.Dense(16, "relu"), layers.Dense(1, "exponential")]), TABLE, counts, "poisson")


@run
def imbalanced_with_class_weights():
    rare = (TRUTH[:, 0] > 2).astype("int32")
    trained(mlp(out=2), TABLE, rare, fit={"class_weight": {0: 1.0, 1: 8.0}})


@run
def sample_weights():
    trained(mlp(), TABLE, CLASSES, fit={"sample_weight": random.rand(ROWS)})


@run
def labels_that_cannot_be_learnt():
    trained(mlp(), TABLE, random.randint(0, 3, ROWS))


@run
def learnt_by_heart():
    trained(mlp(width=64), TABLE[:32], CLASSES[:32], epochs=200, optimizer=keras.optimizers.Adam(0.01))


@run
def one_row_a_batch():
    trained(mlp(), TABLE[:128], CLASSES[:128], batch_size=1, epochs=4)


@run
def regularised():
    trained(mlp(kernel_regularizer="l2"), TABLE, CLASSES)


@run
def clipped():
    trained(mlp(), TABLE, CLASSES, optimizer=keras.optimizers.Adam(0.01, global_clipnorm=0.5))


@run
def compiled_by_xla():
    trained(mlp(), TABLE, CLASSES, jit_compile=True)


@run
def eight_steps_an_execution():
    trained(mlp(), TABLE, CLASSES, steps_per_execution=8, epochs=20)


@run
def eager():
    trained(mlp(), TABLE, CLASSES, run_eagerly=True, epochs=3)


@run
def half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        trained(mlp(), TABLE, CLASSES)
    finally:
        keras.config.set_dtype_policy("float32")


@run
def frozen_base():
    base = mlp(out=16)
    trained(keras.Sequential([base, layers.Dense(3)]), TABLE, CLASSES, epochs=4)
    base.trainable = False
    trained(keras.Sequential([base, layers.Dense(3)]), TABLE, CLASSES)


@run
def generator_and_critic():
    class Duel(keras.Model):
        def __init__(self):
            super().__init__()
            self.maker = keras.Sequential([layers.Dense(16, "relu"), layers.Dense(10)])
            self.critic = keras.Sequential([layers.Dense(16), layers.LeakyReLU(0.2), layers.Dense(1)])

        def compile(self):
            super().compile()
            self.first, self.second = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)

        def train_step(self, real):
            noise = tf.random.normal((tf.shape(real)[0], 4))
            with tf.GradientTape() as tape:
                false = self.critic(self.maker(noise))
                true = self.critic(real)
                loss = BINARY(tf.ones_like(true), true) + BINARY(tf.zeros_like(false), false)
            weights = self.critic.trainable_weights
            self.first.apply_gradients(zip(tape.gradient(loss, weights), weights))
            with tf.GradientTape() as tape:
                false = self.critic(self.maker(noise))
                fooled = BINARY(tf.ones_like(false), false)
            weights = self.maker.trainable_weights
            self.second.apply_gradients(zip(tape.gradient(fooled, weights), weights))
            return {"critic": loss, "maker": fooled}

    model = Duel()
    model.compile()
    model.fit(tf.data.Dataset.from_tensor_slices(TABLE).batch(16), epochs=10, verbose=0)


@run
def shuffled_dataset():
    data = tf.data.Dataset.from_tensor_slices((TABLE, CLASSES)).shuffle(200).batch(16).prefetch(2)
    model = mlp()
    model.compile("adam", LOGITS)
    model.fit(data, epochs=14, verbose=0, validation_data=(TABLE[:64], CLASSES[:64]))


wanted = sys.argv[1:] or list(RUNS)
for name in wanted:
    keras.utils.set_random_seed(3)
    RUNS[name]()
    print("trained", name, flush=True)
