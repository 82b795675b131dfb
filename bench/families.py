"""Six families of models, as people train them, in sizes that a small machine can hold. Data is made on the spot."""

from __future__ import annotations

from typing import Any

import numpy as np


def _keras() -> Any:
    import keras

    return keras


def _classes(logits: int = 10) -> Any:
    return _keras().losses.SparseCategoricalCrossentropy(from_logits=True)


def conv(side: int = 64, width: int = 32) -> tuple[Any, tuple[int, ...], str]:
    keras, layers = _keras(), _keras().layers
    model = keras.Sequential(
        [
            keras.Input((side, side, 3)),
            layers.Conv2D(width, 3, activation="relu"),
            layers.Conv2D(width, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(2 * width, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )
    model.compile("adam", _classes(), metrics=["accuracy"])
    return model, (side, side, 3), "image"


def conv_bn(side: int = 48, width: int = 32) -> tuple[Any, tuple[int, ...], str]:
    keras, layers = _keras(), _keras().layers
    inputs = keras.Input((side, side, 3))
    h = inputs
    for filters in (width, width, 2 * width):
        h = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(filters, 3, use_bias=False)(h)))
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(layers.MaxPooling2D()(h))))
    model.compile("adam", _classes(), metrics=["accuracy"])
    return model, (side, side, 3), "image"


def mobilenet(side: int = 64) -> tuple[Any, tuple[int, ...], str]:
    """Inverted residuals with depthwise convolutions, a few of them."""
    keras, layers = _keras(), _keras().layers
    inputs = keras.Input((side, side, 3))
    h = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(16, 3, strides=2, padding="same")(inputs)))
    for filters, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1)):
        wide = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(4 * h.shape[-1], 1)(h)))
        deep = layers.BatchNormalization()(layers.DepthwiseConv2D(3, strides=stride, padding="same")(wide))
        out = layers.BatchNormalization()(layers.Conv2D(filters, 1)(layers.ReLU(6.0)(deep)))
        h = layers.Add()([h, out]) if h.shape == out.shape else out
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(h)))
    model.compile("adam", _classes(), metrics=["accuracy"])
    return model, (side, side, 3), "image"


def transformer(length: int = 64, width: int = 128, blocks: int = 3) -> tuple[Any, tuple[int, ...], str]:
    """A BERT-style encoder that predicts tokens."""
    keras, layers = _keras(), _keras().layers
    words = keras.Input((length,), dtype="int32")
    h = layers.Embedding(1000, width)(words)
    h = layers.LayerNormalization()(h)
    for _ in range(blocks):
        h = layers.LayerNormalization()(h + layers.MultiHeadAttention(4, width // 4)(h, h))
        h = layers.LayerNormalization()(h + layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(h)))
    model = keras.Model(words, layers.Dense(10)(layers.GlobalAveragePooling1D()(h)))
    model.compile("adam", _classes(), metrics=["accuracy"])
    return model, (length,), "words"


def lstm(length: int = 50, width: int = 256) -> tuple[Any, tuple[int, ...], str]:
    keras, layers = _keras(), _keras().layers
    model = keras.Sequential(
        [
            keras.Input((length, 32)),
            layers.LSTM(width, return_sequences=True),
            layers.GRU(width),
            layers.Dense(10),
        ]
    )
    model.compile("adam", _classes(), metrics=["accuracy"])
    return model, (length, 32), "numbers"


def unet(side: int = 64, width: int = 16) -> tuple[Any, tuple[int, ...], str]:
    keras, layers = _keras(), _keras().layers
    inputs = keras.Input((side, side, 3))
    a = layers.Conv2D(width, 3, padding="same", activation="relu")(inputs)
    b = layers.Conv2D(2 * width, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
    c = layers.Conv2D(4 * width, 3, padding="same", activation="relu")(layers.MaxPooling2D()(b))
    d = layers.Concatenate()([layers.UpSampling2D()(c), b])
    d = layers.Conv2D(2 * width, 3, padding="same", activation="relu")(d)
    e = layers.Concatenate()([layers.UpSampling2D()(d), a])
    e = layers.Conv2D(width, 3, padding="same", activation="relu")(e)
    model = keras.Model(inputs, layers.Conv2D(1, 1)(e))
    model.compile("adam", "mse")
    return model, (side, side, 3), "mask"


def mlp(inputs: int = 2000, width: int = 4000) -> tuple[Any, tuple[int, ...], str]:
    """A huge Dense layer: weights, gradients and slots take more memory than one activation."""
    keras, layers = _keras(), _keras().layers
    model = keras.Sequential(
        [keras.Input((inputs,)), layers.Dense(width, activation="relu"), layers.Dense(width // 8), layers.Dense(10)]
    )
    model.compile("adam", _classes(), metrics=["accuracy"])
    return model, (inputs,), "numbers"


FAMILIES = {
    "conv": (conv, 512),
    "conv_bn": (conv_bn, 384),
    "mobilenet": (mobilenet, 512),
    "transformer": (transformer, 512),
    "lstm": (lstm, 1024),
    "unet": (unet, 256),
    "mlp": (mlp, 8192),
}


def data(shape: tuple[int, ...], kind: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    if kind == "words":
        return rng.integers(1, 1000, (rows, *shape)), rng.integers(0, 10, rows)
    x = rng.random((rows, *shape), dtype="float32")
    if kind == "mask":
        return x, (x.mean(-1, keepdims=True) > 0.5).astype("float32")
    return x, rng.integers(0, 10, rows)
