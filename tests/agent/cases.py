"""The matrix of exactness: each feature of Keras that a split must not change, alone and together."""

from __future__ import annotations

from typing import Any

import numpy as np

from .splitting import BATCH, ROWS


def _random() -> np.random.Generator:
    return np.random.default_rng(3)


def _table() -> tuple[np.ndarray, np.ndarray]:
    return _random().normal(size=(ROWS, 6)).astype("float32"), _random().integers(0, 3, ROWS)


def _regression() -> tuple[np.ndarray, np.ndarray]:
    return _table()[0], _random().normal(size=(ROWS, 3)).astype("float32")


def _keras() -> Any:
    import keras

    return keras


def _dense(**first: Any) -> Any:
    keras = _keras()
    return keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, activation="tanh", **first), keras.layers.Dense(3)]
    )


def _crossentropy(**more: Any) -> Any:
    return _keras().losses.SparseCategoricalCrossentropy(from_logits=True, **more)


def _fit(model: Any, optimizer: Any = "adam", loss: Any = None, data: Any = None, **more: Any) -> Any:
    compile_arguments = {k: more.pop(k) for k in list(more) if k in COMPILE}
    model.compile(optimizer, loss if loss is not None else _crossentropy(), **compile_arguments)
    x, y = data if data is not None else _table()
    return model, {"x": x, "y": y, **more}


COMPILE = ("metrics", "weighted_metrics", "loss_weights", "steps_per_execution", "jit_compile", "run_eagerly")


# --- optimizers ---------------------------------------------------------------------------------------


def plain_sgd():
    return _fit(_dense(), _keras().optimizers.SGD(1.0))


def learning_rate_schedule():
    return _fit(_dense(), _keras().optimizers.Adam(_keras().optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)))


def clipnorm():
    return _fit(_dense(), _keras().optimizers.Adam(0.01, clipnorm=0.05))


def clipvalue():
    return _fit(_dense(), _keras().optimizers.SGD(0.1, clipvalue=0.01))


def global_clipnorm():
    return _fit(_dense(), _keras().optimizers.SGD(0.1, global_clipnorm=0.05))


def weight_decay():
    return _fit(_dense(), _keras().optimizers.AdamW(0.01, weight_decay=0.1))


def moving_average():
    return _fit(_dense(), _keras().optimizers.Adam(0.01, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=3))


def loss_scale():
    keras = _keras()
    return _fit(_dense(), keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=64.0))


def keras_accumulation():
    return _fit(_dense(), _keras().optimizers.SGD(0.1, gradient_accumulation_steps=2))


# --- losses -------------------------------------------------------------------------------------------


def weight_regularisation():
    return _fit(_dense(kernel_regularizer="l2", bias_regularizer="l1"))


def activity_regularisation():
    return _fit(_dense(activity_regularizer="l2"))


def sample_weights():
    return _fit(_dense(), sample_weight=_random().random(ROWS).astype("float32"), weighted_metrics=["accuracy"])


def class_weights():
    return _fit(_dense(), class_weight={0: 1.0, 1: 3.0, 2: 0.2}, metrics=["accuracy"])


def sum_reduction():
    return _fit(_dense(), _keras().optimizers.SGD(0.01), loss=_crossentropy(reduction="sum"))


def mean_by_sample_weight():
    weights = _random().random(ROWS).astype("float32")
    return _fit(_dense(), loss=_crossentropy(reduction="mean_with_sample_weight"), sample_weight=weights)


def ignored_class():
    x, y = _table()
    return _fit(_dense(), loss=_crossentropy(ignore_class=0), data=(x, y))


def scalar_mean_loss():
    def loss(y_true, y_pred):
        return _keras().ops.mean(_keras().ops.square(y_pred - _keras().ops.cast(y_true, "float32")))

    return _fit(_dense(), loss=loss, data=_regression())


def scalar_sum_loss():
    def loss(y_true, y_pred):
        return _keras().ops.sum(_keras().ops.square(y_pred - _keras().ops.cast(y_true, "float32")))

    return _fit(_dense(), _keras().optimizers.SGD(0.001), loss=loss, data=_regression())


def loss_added_by_a_layer():
    keras = _keras()

    class Penalty(keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(0.1 * keras.ops.sum(keras.ops.square(inputs)))
            self.add_loss(0.3 * keras.ops.mean(keras.ops.abs(inputs)))
            return inputs

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), Penalty(), keras.layers.Dense(3)])
    return _fit(model, _keras().optimizers.SGD(0.01))


def own_compute_loss():
    keras = _keras()

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(3, kernel_regularizer="l2")

        def call(self, x):
            return self.head(x)

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return super().compute_loss(x, y, y_pred, sample_weight, training) + 0.01 * keras.ops.mean(y_pred**2)

    return _fit(Model())


# --- masks --------------------------------------------------------------------------------------------


def _sentences() -> np.ndarray:
    words = _random().integers(1, 20, (ROWS, 7))
    lengths = _random().integers(1, 8, ROWS)
    return np.where(np.arange(7) < lengths[:, None], words, 0)


def masked_sequence():
    keras = _keras()
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((7,), dtype="int32"), layers.Embedding(20, 5, mask_zero=True),
         layers.LSTM(6, return_sequences=True), layers.Dense(3)]
    )  # fmt: skip
    return _fit(model, data=(_sentences(), _random().integers(0, 3, (ROWS, 7))), metrics=["accuracy"])


def masks_that_differ_between_outputs():
    keras = _keras()
    layers = keras.layers
    words = keras.Input((7,), dtype="int32", name="words")
    numbers = keras.Input((7, 2), name="numbers")
    one = layers.Dense(3, name="tags")(layers.Embedding(20, 5, mask_zero=True)(words))
    two = layers.Dense(1, name="value")(layers.Masking()(numbers))
    three = layers.Dense(1, name="whole")(layers.GlobalAveragePooling1D()(one))
    model = keras.Model([words, numbers], [one, two, three])
    x = _sentences()
    y = np.where((np.arange(7) < 4)[None, :, None], _random().normal(size=(ROWS, 7, 2)), 0.0).astype("float32")
    y[::3, 1] = 0
    targets = [
        _random().integers(0, 3, (ROWS, 7)),
        _random().normal(size=(ROWS, 7, 1)).astype("float32"),
        _random().normal(size=(ROWS, 1)).astype("float32"),
    ]
    return _fit(model, loss=[_crossentropy(), "mse", "mae"], loss_weights=[0.3, 2.0, 1.0], data=([x, y], targets))


# --- inputs, outputs, metrics -------------------------------------------------------------------------


def dictionaries():
    keras = _keras()
    a, b = keras.Input((4,), name="a"), keras.Input((2,), name="b")
    joined = keras.layers.Concatenate()([a, b])
    model = keras.Model({"a": a, "b": b}, {"p": keras.layers.Dense(3)(joined), "q": keras.layers.Dense(1)(joined)})
    x, y = _table()
    data = ({"a": x[:, :4], "b": x[:, 4:]}, {"p": y, "q": x[:, :1]})
    return _fit(model, loss={"p": _crossentropy(), "q": "mse"}, metrics={"p": "accuracy", "q": ["mae"]}, data=data)


def stateful_metrics():
    keras = _keras()
    x, y = _table()
    kinds = (keras.metrics.AUC, keras.metrics.Precision, keras.metrics.RootMeanSquaredError, keras.metrics.R2Score)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, activation="sigmoid")])
    return _fit(
        model,
        loss="binary_crossentropy",
        data=(x, (y[:, None] > 1).astype("float32")),
        metrics=[kind() for kind in kinds],
    )


def own_metrics():
    keras = _keras()

    def worst(y_true, y_pred):
        return keras.ops.max(keras.ops.abs(y_pred))

    return _fit(_dense(), metrics=[worst, "accuracy"])


def several_steps_an_execution():
    return _fit(_dense(), steps_per_execution=2, metrics=["accuracy"])


def eagerly():
    return _fit(_dense(kernel_regularizer="l2"), run_eagerly=True, metrics=["accuracy"])


def sparse_eagerly():
    model, arguments = masked_sequence()
    model.compile("adam", _crossentropy(), run_eagerly=True)
    return model, arguments


def compiled_by_xla():
    return _fit(_dense(activity_regularizer="l2"), jit_compile=True, metrics=["accuracy"])


def masked_by_xla():
    model, arguments = masks_that_differ_between_outputs()
    model.compile("sgd", [_crossentropy(), "mse", "mae"], jit_compile=True)
    return model, arguments


def layer_with_a_counter():
    keras = _keras()

    class Counting(keras.layers.Layer):
        def build(self, shape):
            self.calls = self.add_weight(shape=(), dtype="int32", trainable=False, initializer="zeros")
            self.mean = self.add_weight(shape=(6,), trainable=False, initializer="zeros")

        def call(self, x):
            self.calls.assign_add(1)
            self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(x, axis=0))
            return x

    model = keras.Sequential([keras.Input((6,)), Counting(), keras.layers.Dense(3)])
    return _fit(model)


def frozen_part():
    model = _dense()
    model.layers[0].trainable = False
    return _fit(model)


def unused_weights():
    """A trainable weight that the loss does not depend on: its gradient is None."""
    keras = _keras()

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(3)
            self.unused = self.add_weight(shape=(2,), name="unused")

        def call(self, x):
            return self.head(x)

    return _fit(Model())


def unbuilt_model():
    keras = _keras()
    return _fit(keras.Sequential([keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3)]))


def dataset():
    import tensorflow as tf

    x, y = _table()
    model, _ = _fit(_dense(), metrics=["accuracy"])
    return model, {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)}


def dataset_without_remainder():
    import tensorflow as tf

    x, y = _table()
    model, _ = _fit(_dense())
    return model, {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True)}


def py_dataset():
    keras = _keras()

    class Data(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            x, y = _table()
            return x[index * BATCH : (index + 1) * BATCH], y[index * BATCH : (index + 1) * BATCH]

    model, _ = _fit(_dense())
    return model, {"x": Data()}


def autoencoder_without_labels():
    keras = _keras()

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = keras.layers.Dense(6)

        def call(self, x):
            y = self.inner(x)
            self.add_loss(keras.ops.mean(keras.ops.square(y - x)))
            return y

    model = Model()
    model.compile("adam")
    return model, {"x": _table()[0]}


def strings():
    keras = _keras()
    layer = keras.layers.StringLookup(vocabulary=["a", "b", "c"], output_mode="one_hot")
    inputs = keras.Input((1,), dtype="string")
    model = keras.Model(inputs, keras.layers.Dense(3)(layer(inputs)))
    words = np.array([["abcd"[i % 4]] for i in range(ROWS)], dtype=object)
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices((words.astype(str), _table()[1])).batch(BATCH)
    model.compile("adam", _crossentropy())
    return model, {"x": data}


def many_things_together():
    keras = _keras()
    layers = keras.layers
    words = keras.Input((7,), dtype="int32")
    h = layers.Embedding(20, 5, mask_zero=True, embeddings_regularizer="l2")(words)
    h = layers.LSTM(6, return_sequences=True, activity_regularizer="l2")(h)
    model = keras.Model(words, [layers.Dense(3, name="a")(h), layers.Dense(1, name="b")(layers.LSTM(4)(h))])
    optimizer = keras.optimizers.AdamW(
        keras.optimizers.schedules.CosineDecay(0.05, 10), weight_decay=0.01, global_clipnorm=0.5, use_ema=True
    )
    data = (_sentences(), [_random().integers(0, 3, (ROWS, 7)), _random().normal(size=(ROWS, 1)).astype("float32")])
    weights = [_random().random((ROWS, 7)).astype("float32"), _random().random(ROWS).astype("float32")]
    return _fit(
        model, optimizer, loss=[_crossentropy(), "huber"], loss_weights=[0.7, 0.3], data=data, sample_weight=weights,
        weighted_metrics=[["accuracy"], ["mae"]], steps_per_execution=2,
    )  # fmt: skip


EXACT = [
    plain_sgd, learning_rate_schedule, clipnorm, clipvalue, global_clipnorm, weight_decay, moving_average, loss_scale,
    keras_accumulation, weight_regularisation, activity_regularisation, sample_weights, class_weights, sum_reduction,
    mean_by_sample_weight, ignored_class, scalar_mean_loss, scalar_sum_loss, loss_added_by_a_layer, own_compute_loss,
    masked_sequence, masks_that_differ_between_outputs, dictionaries, stateful_metrics, own_metrics,
    several_steps_an_execution, eagerly, sparse_eagerly, compiled_by_xla, masked_by_xla, layer_with_a_counter,
    frozen_part, unused_weights, unbuilt_model, dataset, dataset_without_remainder, py_dataset,
    autoencoder_without_labels, strings, many_things_together,
]  # fmt: skip

# Those that are hardest to get right, for every run of the tests; `bench exactness`, and KEEPFIT_TEST_LONG=1, take all.
SHORT = [
    learning_rate_schedule, global_clipnorm, moving_average, loss_scale, activity_regularisation, sample_weights,
    class_weights, ignored_class, loss_added_by_a_layer, masked_sequence, masks_that_differ_between_outputs,
    stateful_metrics, several_steps_an_execution, sparse_eagerly, masked_by_xla, layer_with_a_counter, strings,
    many_things_together,
]  # fmt: skip
