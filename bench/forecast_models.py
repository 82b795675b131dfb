"""A user's script for the forecast: python -m bench.forecast_models NAME BATCH OPTIMIZER arrays|tfdata STEPS

Models of many families, compiled and fitted as people do it. At its end it prints its peak, and what it had after
importing the framework.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

STEPS = 4


def applications(name: str, side: int, **options: Any) -> Any:
    def make() -> Any:
        import keras

        model = getattr(keras.applications, name)(
            weights=None, input_shape=(side, side, 3), classes=10, classifier_activation=None, **options
        )
        return model, [((side, side, 3), "image")]

    return make


def functional(build: Any, shape: tuple[int, ...], kind: str) -> Any:
    return _of_several(build, (shape, kind))


def _of_several(build: Any, *told: tuple[tuple[int, ...], str]) -> Any:
    """A model with an input for each (shape, kind)."""

    def make() -> Any:
        import keras

        inputs = [keras.Input(shape, dtype="int32" if kind == "words" else "float32") for shape, kind in told]
        return keras.Model(inputs if len(inputs) > 1 else inputs[0], build(keras.layers, *inputs)), told

    return make


def unet(layers: Any, x: Any, width: int = 32) -> Any:
    kept = []
    for depth in range(3):
        for _ in range(2):
            x = layers.Conv2D(width << depth, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(width << 3, 3, padding="same", activation="relu")(x)
    for depth in (2, 1, 0):
        x = layers.Conv2DTranspose(width << depth, 2, strides=2)(x)
        x = layers.Conv2D(width << depth, 3, padding="same", activation="relu")(layers.Concatenate()([x, kept[depth]]))
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


def encoder(layers: Any, x: Any, width: int = 256, blocks: int = 4, causal: bool = False) -> Any:
    x = layers.LayerNormalization()(layers.Embedding(2000, width)(x))
    for _ in range(blocks):
        attended = layers.MultiHeadAttention(4, width // 4, dropout=0.1)(x, x, use_causal_mask=causal)
        x = layers.LayerNormalization()(x + attended)
        inner = layers.Dense(4 * width, activation="gelu")(x)
        x = layers.LayerNormalization()(x + layers.Dropout(0.1)(layers.Dense(width)(inner)))
    return layers.Dense(10)(layers.GlobalAveragePooling1D()(x))


def decoder(layers: Any, x: Any) -> Any:
    return encoder(layers, x, causal=True)


def recurrent(layers: Any, x: Any, kind: str = "LSTM", width: int = 256) -> Any:
    x = layers.Embedding(2000, width // 2)(x)
    x = getattr(layers, kind)(width, return_sequences=True)(x)
    return layers.Dense(10)(getattr(layers, kind)(width)(x))


def gru(layers: Any, x: Any) -> Any:
    return recurrent(layers, x, "GRU")


def bidirectional(layers: Any, x: Any) -> Any:
    x = layers.Embedding(2000, 64)(x)
    return layers.Dense(10)(layers.Bidirectional(layers.LSTM(128))(x))


def mlp(layers: Any, x: Any, width: int = 4096, depth: int = 4) -> Any:
    for _ in range(depth):
        x = layers.Dense(width, activation="relu")(x)
    return layers.Dense(10)(x)


def deep_mlp(layers: Any, x: Any) -> Any:
    for _ in range(12):
        x = layers.Dropout(0.2)(layers.Dense(1024, activation="relu")(x))
    return layers.Dense(10)(x)


def autoencoder(layers: Any, x: Any) -> Any:
    for width in (32, 64, 128):
        x = layers.Conv2D(width, 3, strides=2, padding="same", activation="relu")(x)
    for width in (128, 64, 32):
        x = layers.Conv2DTranspose(width, 3, strides=2, padding="same", activation="relu")(x)
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


def two_tower(layers: Any, x: Any) -> Any:
    """Two branches over the same rows, joined at the end."""
    one = layers.GlobalAveragePooling1D()(layers.Dense(512, activation="relu")(layers.Embedding(5000, 256)(x)))
    other = layers.GlobalMaxPooling1D()(layers.Dense(512, activation="relu")(layers.Embedding(5000, 256)(x)))
    return layers.Dense(10)(layers.Concatenate()([one, other, one * other]))


def multi_branch(layers: Any, x: Any) -> Any:
    joined = [layers.Conv2D(32, size, padding="same", activation="relu")(x) for size in (1, 3, 5, 7)]
    x = layers.Concatenate()(joined)
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(layers.Conv2D(64, 3, activation="relu")(x)))


def norm_heavy(layers: Any, x: Any) -> Any:
    for width in (32, 32, 64, 64):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", use_bias=False)(x)))
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


def depthwise(layers: Any, x: Any) -> Any:
    x = layers.Conv2D(64, 3, strides=2, padding="same")(x)
    for _ in range(4):
        x = layers.ReLU()(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(x)))
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(64, 1)(x)))
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


def conv1d(layers: Any, x: Any) -> Any:
    for width in (64, 64, 128):
        x = layers.Conv1D(width, 5, padding="same", activation="relu")(x)
    return layers.Dense(10)(layers.GlobalAveragePooling1D()(x))


def conv3d(layers: Any, x: Any) -> Any:
    for width in (16, 32):
        x = layers.Conv3D(width, 3, padding="same", activation="relu")(x)
    return layers.Dense(10)(layers.GlobalAveragePooling3D()(x))


def embedding_heavy(layers: Any, x: Any) -> Any:
    return layers.Dense(10)(layers.GlobalAveragePooling1D()(layers.Embedding(400_000, 256)(x)))


def vision_transformer(layers: Any, x: Any, width: int = 192) -> Any:
    x = layers.Reshape((-1, width))(layers.Conv2D(width, 8, strides=8)(x))
    for _ in range(4):
        inner = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(3, width // 3)(inner, inner)
        inner = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dense(width)(inner)
    return layers.Dense(10)(layers.GlobalAveragePooling1D()(x))


def wavenet(layers: Any, x: Any) -> Any:
    """Gated, dilated convolutions; what each of them skips is summed up."""
    x, skipped = layers.Conv1D(48, 1)(x), []
    for depth in range(5):
        gate, value = (layers.Conv1D(48, 2, dilation_rate=1 << depth, padding="causal", activation=kind)(x)
                       for kind in ("sigmoid", "tanh"))  # fmt: skip
        skipped.append(layers.Conv1D(48, 1)(gate * value))
        x = x + skipped[-1]
    return layers.Dense(10)(layers.GlobalAveragePooling1D()(layers.ReLU()(layers.Add()(skipped))))


def conv_lstm(layers: Any, x: Any) -> Any:
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(layers.ConvLSTM2D(32, 3, padding="same")(x)))


def multi_input(layers: Any, words: Any, numbers: Any) -> Any:
    """A text and a table of numbers beside it."""
    text = layers.Conv1D(256, 3, activation="relu")(layers.Embedding(20_000, 128)(words))
    table = layers.Dense(1024, activation="relu")(layers.BatchNormalization()(numbers))
    joined = layers.Concatenate()([layers.GlobalMaxPooling1D()(text), layers.Dropout(0.3)(table)])
    return layers.Dense(10)(layers.Dense(512, activation="relu")(joined))


def plain_conv(layers: Any, x: Any) -> Any:
    for width in (32, 32, 64):
        x = layers.Conv2D(width, 3, activation="relu")(x)
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


# name -> (how it is made, batch); the first ones were looked at while the forecast was written, the others were not.
TUNING = {
    "plain_conv": (functional(plain_conv, (64, 64, 3), "image"), 192),
    "encoder": (functional(encoder, (64,), "words"), 192),
    "lstm": (functional(recurrent, (60,), "words"), 768),
    "mlp": (functional(mlp, (4096,), "table"), 4096),
    "unet": (functional(unet, (96, 96, 3), "image"), 32),
    "MobileNetV2": (applications("MobileNetV2", 96), 64),
    "conv1d": (functional(conv1d, (1024, 8), "table"), 192),
    "two_tower": (functional(two_tower, (64,), "words"), 1536),
    "ResNet50": (applications("ResNet50", 96), 48),
    "DenseNet121": (applications("DenseNet121", 96), 32),
}
REPORTED = {
    "ResNet50V2": (applications("ResNet50V2", 96), 48),
    "EfficientNetB0": (applications("EfficientNetB0", 96), 48),
    "EfficientNetV2B0": (applications("EfficientNetV2B0", 96), 48),
    "Xception": (applications("Xception", 96), 32),
    "InceptionV3": (applications("InceptionV3", 96), 64),
    "VGG16": (applications("VGG16", 64), 64),
    "MobileNet": (applications("MobileNet", 96), 96),
    "MobileNetV3Small": (applications("MobileNetV3Small", 128), 128),
    "NASNetMobile": (applications("NASNetMobile", 96), 32),
    "ConvNeXtTiny": (applications("ConvNeXtTiny", 64), 48),
    "decoder": (functional(decoder, (96,), "words"), 128),
    "gru": (functional(gru, (60,), "words"), 768),
    "bidirectional": (functional(bidirectional, (80,), "words"), 1024),
    "deep_mlp": (functional(deep_mlp, (1024,), "table"), 12288),
    "autoencoder": (functional(autoencoder, (96, 96, 3), "image"), 192),
    "multi_branch": (functional(multi_branch, (64, 64, 3), "image"), 128),
    "norm_heavy": (functional(norm_heavy, (64, 64, 3), "image"), 96),
    "depthwise": (functional(depthwise, (96, 96, 3), "image"), 96),
    "conv3d": (functional(conv3d, (24, 24, 24, 1), "table"), 160),
    "embedding_heavy": (functional(embedding_heavy, (32,), "words"), 2048),
    "vision_transformer": (functional(vision_transformer, (96, 96, 3), "image"), 96),
    "wavenet": (functional(wavenet, (1024, 4), "table"), 96),
    "conv_lstm": (functional(conv_lstm, (12, 32, 32, 4), "table"), 64),
    "multi_input": (_of_several(multi_input, ((96,), "words"), ((512,), "table")), 3072),
}


def main(name: str, batch: int, optimizer: str, source: str, steps: int = STEPS) -> None:
    import keras
    import numpy as np
    import tensorflow as tf

    from . import variants

    after_import = _resident()
    make, usual = {**TUNING, **REPORTED}[name]
    batch = batch or usual
    keras.utils.set_random_seed(0)
    option = os.environ.get("BENCH_OPTION", "")  # what `bench options` tries
    if option == "mixed_precision":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model, inputs = (variants.HALVED[name] if option == "smaller_model" else make)()
    if option == "freeze":
        variants.freeze_half(model)
    if option == "lora":
        variants.lora(model)
    if option == "recompute":
        model = variants.recomputed(model)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    held = int(os.environ.get("BENCH_HELD", "0"))  # bytes, whatever the batch, where `bench largest` asks for that
    each = sum(int(np.prod(shape)) * (8 if kind == "words" else 4) for shape, kind in inputs)
    rows = min(24 * usual, max(6 * usual, held // each)) if held else 2 * batch
    longer = held and steps > max(STEPS, rows // batch)  # than an epoch
    if longer:
        rows -= rows % batch
    x, y = drawn(inputs, rows)
    if source == "tfdata":
        data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(rows).batch(batch).prefetch(2)
        model.fit(data.repeat(), epochs=1, steps_per_epoch=steps, verbose=0)
    else:
        epochs, only = (-(-steps // (rows // batch)), None) if longer else (1, steps) if held else (steps // 2, None)
        model.fit(x, y, batch_size=batch, epochs=epochs, steps_per_epoch=only, verbose=0)
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    print("peak", 1024 * int(fields["VmHWM"].split()[0]), "after_import", after_import, flush=True)
    if option:
        began = time.monotonic()
        model.fit(x, y, batch_size=batch, epochs=2, verbose=0)
        print("seconds", (time.monotonic() - began) / 4, flush=True)


def drawn(inputs: Any, rows: int) -> tuple[Any, Any]:
    """(x, y): the same numbers every time."""
    import numpy as np

    draw = np.random.default_rng(0)
    x = tuple(
        draw.integers(0, 2000, (rows, *shape)) if kind == "words" else draw.random((rows, *shape), dtype="float32")
        for shape, kind in inputs
    )
    return x if len(x) > 1 else x[0], draw.integers(0, 10, rows)


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return 4096 * int(file.read().split()[1])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], *map(int, sys.argv[5:]))
