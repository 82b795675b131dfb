"""From a step that was not finite to its culprit: seconds, for a model of a hundred layers at batch 256."""

from __future__ import annotations

import os
import sys
import time

from . import tables

LAYERS, BATCH = 100, 256
WANTED = 5.0


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras
    import numpy as np
    from tests.agent.splitting import gated, watching

    heart, made = gated()
    heart.counsel.limit = 0
    layers, rows = keras.layers, []

    class Root(layers.Layer):
        def call(self, x):
            return keras.ops.sqrt(x * 0)

    def dense(extra):
        return keras.Sequential(
            [keras.Input((256,)), *[layers.Dense(256, activation="relu") for _ in range(LAYERS)], *extra]
        )

    def conv(extra):
        parts = [layers.Conv2D(16, 3, padding="same", activation="relu") for _ in range(LAYERS)]
        return keras.Sequential([keras.Input((16, 16, 3)), *parts, layers.GlobalAveragePooling2D(), *extra])

    for name, make, shape in (("dense", dense, (256,)), ("conv", conv, (16, 16, 3))):
        for poison in ("a feature", "on the way back"):
            model = make([layers.Dense(1), Root(name="root")] if poison != "a feature" else [layers.Dense(1)])
            model.compile("sgd", "mse", jit_compile=False)
            x = np.random.rand(BATCH, *shape).astype("float32")
            if poison == "a feature":
                x[77].flat[5] = np.nan
            heart.journal.events.clear()
            made.numbers = watching(heart, made)  # what one case took is not held against the next
            model.fit(x, np.ones((BATCH, 1)), batch_size=BATCH, verbose=0)
            began = time.perf_counter()
            made.numbers.look()
            took = time.perf_counter() - began
            assert not heart.failures, heart.failures
            (report,) = heart.journal.reports("numbers-poison")
            found = f"{report['phase']}, {report['op'] or report.get('name')}, {report['layer']}"
            rows.append(
                [f"{LAYERS} {name} layers", poison, found, f"{took:.2f}", WANTED, tables.verdict(took <= WANTED)]
            )
    header = ("MODEL", "POISON", "FOUND", "SECONDS", "WANTED", "REACHED")
    tables.show(f"From the hit to its culprit, batch {BATCH}", header, rows)


if __name__ == "__main__":
    sys.exit(main())
