"""A user's script: trains one family by `fit`, knows nothing of keepfit. python -m bench.train NAME BATCH STEPS"""

from __future__ import annotations

import sys

import keras

from .families import FAMILIES, data


def main(name: str, batch: int, steps: int) -> None:
    make, usual = FAMILIES[name]
    keras.utils.set_random_seed(0)
    model, shape, kind = make()
    x, y = data(shape, kind, 2 * usual)  # the same data, whatever the batch
    history = model.fit(x, y, batch_size=batch or usual, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False)
    print("loss", history.history["loss"], flush=True)
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    print("peak", 1024 * (int(fields["VmHWM"].split()[0]) - int(fields["RssFile"].split()[0])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
