"""Split against whole, and Keras' own gradient accumulation beside it: how far from the full batch?"""

from __future__ import annotations

import os

from . import tables

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main() -> None:
    from tests.agent import cases, splitting
    from tests.agent.splitting import BATCH, Trained

    rows = []
    for case in cases.EXACT:
        whole = Trained(case).fit()
        split = Trained(case, rows=-(-BATCH // 2))
        results = {2: split.fit(), 3: split.fit_again(-(-BATCH // 3)), 7: split.fit_again(-(-BATCH // 7))}
        worst = [_worst(splitting, whole, result) for result in results.values()]
        rows.append([case.__name__.replace("_", " "), *(f"{value:.1e}" for value in worst), ""])
    tables.show(
        "largest relative difference to the whole batch, after 6 steps", ("case", "k = 2", "k = 3", "k = 7", ""), rows
    )
    _beside_keras(splitting)


def _worst(splitting, whole, result) -> float:
    found = (splitting.largest_difference(getattr(whole, n), getattr(result, n))[0] for n in ("weights", "history"))
    return max(found)


def _beside_keras(splitting) -> None:
    """The same training with batches of 3 and Keras' gradient_accumulation_steps=3, against batches of 9."""
    import keras
    import numpy as np

    rng = np.random.default_rng(3)
    words = np.where(np.arange(7) < rng.integers(1, 8, 21)[:, None], rng.integers(1, 20, (21, 7)), 0)
    tags = rng.integers(0, 3, (21, 7))

    def model(masked: bool, rate, steps):
        keras.utils.set_random_seed(7)
        layers = keras.layers
        net = keras.Sequential(
            [keras.Input((7,), dtype="int32"), layers.Embedding(20, 5, mask_zero=masked), layers.Dense(3)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        net.compile(keras.optimizers.SGD(rate(), gradient_accumulation_steps=steps), loss)
        return net

    def constant():
        return 0.5

    def schedule():
        return keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)

    rows = []
    for name, masked, rate, count in (
        ("plain", False, constant, 18),
        ("masked", True, constant, 18),
        ("ragged last batch", False, constant, 21),
        ("scheduled", False, schedule, 18),
    ):
        trained = []
        for rows_at_once, steps, split in ((9, None, 0), (3, 3, 0), (9, None, 3)):
            heart, guard = splitting.guarded()
            heart.counsel = guard.counsel = splitting.Scripted()
            heart.counsel.rows = split
            net = model(masked, rate, steps)
            net.fit(words[:count], tags[:count], batch_size=rows_at_once, shuffle=False, verbose=0, epochs=2)
            trained.append({str(i): v.numpy() for i, v in enumerate(net.trainable_variables)})
        keras_own = splitting.largest_difference(trained[0], trained[1])[0]
        ours = splitting.largest_difference(trained[0], trained[2])[0]
        rows.append([name, f"{keras_own:.1e}", f"{ours:.1e}"])
    tables.show(
        "beside Keras' gradient_accumulation_steps=3", ("case", "Keras' own", "keepfit"), rows,
        "relative difference of the weights to the full batch of 9, after two epochs",
    )  # fmt: skip


if __name__ == "__main__":
    main()
