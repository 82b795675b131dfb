"""The models of `bench forecast` with one of the plan's options taken, as a person would write it."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

from .forecast_models import applications, encoder, functional, mlp, recurrent

BLOCKS = 4  # as the plan has it


def _thinner_conv(layers: Any, x: Any) -> Any:
    for width in (16, 16, 32):
        x = layers.Conv2D(width, 3, activation="relu")(x)
    return layers.Dense(10)(layers.GlobalAveragePooling2D()(x))


# The same architectures at half the width.
HALVED = {
    "plain_conv": functional(_thinner_conv, (64, 64, 3), "image"),
    "encoder": functional(partial(encoder, width=128), (64,), "words"),
    "lstm": functional(partial(recurrent, width=128), (60,), "words"),
    "mlp": functional(partial(mlp, width=2048), (4096,), "table"),
    "MobileNetV2": applications("MobileNetV2", 96, alpha=0.5),
}


def recomputed(model: Any) -> Any:
    """The same model in blocks whose activations are not kept: they are computed again when their gradients are."""
    import keras

    class Block(keras.layers.Layer):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def call(self, x: Any, training: bool = False) -> Any:
            return keras.remat(lambda given: self.inner(given, training=training))(x)

    borders = [model.input, *_borders(model), model.output]
    x = model.input
    for begin, end in itertools.pairwise(borders):
        x = Block(keras.Model(begin, end))(x)
    return keras.Model(model.input, x)


def _borders(model: Any) -> list[Any]:
    """Where a single tensor goes from one side to the other, with about as many numbers between one and the next."""
    steps = [operation for operation in model.operations if operation._inbound_nodes]
    made = {id(tensor): place for place, step in enumerate(steps) for tensor in step._inbound_nodes[0].output_tensors}
    last = dict.fromkeys(made, 0)
    for place, step in enumerate(steps):
        for tensor in step._inbound_nodes[0].input_tensors:
            last[id(tensor)] = max(last.get(id(tensor), 0), place)
    alone = [place for place in range(1, len(steps) - 1) if sum(made[each] <= place < last[each] for each in made) == 1]
    sums = list(itertools.accumulate(sum(map(_numbers, step._inbound_nodes[0].output_tensors)) for step in steps))
    wanted = [sums[-1] * part // BLOCKS for part in range(1, BLOCKS)]
    chosen = sorted({min(alone, key=lambda place: abs(sums[place] - near)) for near in wanted})
    return [steps[place]._inbound_nodes[0].output_tensors[0] for place in chosen]


def _numbers(tensor: Any) -> int:
    """Of one row."""
    return math.prod(size or 1 for size in tensor.shape)


def freeze_half(model: Any) -> None:
    """The first layers, up to half of the weights."""
    import numpy as np

    whole = seen = sum(int(np.prod(w.shape)) for w in model.trainable_weights)
    for layer in model.layers:
        size = sum(int(np.prod(w.shape)) for w in layer.trainable_weights)
        if seen - size < whole // 2:
            break
        layer.trainable, seen = False, seen - size


def lora(model: Any) -> None:
    for layer in model._flatten_layers():
        if hasattr(layer, "enable_lora") and layer.built and min(layer.kernel.shape) > 8:
            layer.enable_lora(8)
