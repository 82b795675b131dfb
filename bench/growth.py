"""How a training's peak rises with its steps, and what stops that: malloc as glibc has it, and a lean one.

glibc raises by itself, up to 32 MiB, the size from which a freed block goes back to the system; smaller ones it keeps,
in the arena of the thread that asked for it, and other threads in other steps ask for theirs. *Arenas*: how many hold
more than a MiB in the end, and the MiB in them that are free (`malloc_info`).
Both ways in turns; peaks are anonymous memory (VmHWM less RssFile), times those of the later half of the steps.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import time
from xml.etree import ElementTree

from keepfit.plan.forecast import LEAN_MALLOC

from . import tables
from .forecast_models import REPORTED, TUNING, drawn
from .largest import MODELS
from .rows import Rows

STEPS = int(os.environ.get("BENCH_STEPS", "64"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
PART = int(os.environ.get("BENCH_PART", "4"))  # of the model's usual batch: many steps are to be seen
EPOCH = 8  # steps
MARKS = (4, 16)
HEADER = ("model", "rows", *(f"peak after {mark}" for mark in MARKS), f"after {STEPS}", "growth", "arenas", "free",
          "lean: after 4", f"after {STEPS}", "growth", "of the other", "time")  # fmt: skip


def main() -> None:
    if len(sys.argv) > 1:
        return train(sys.argv[1], int(sys.argv[2]))
    rows = Rows(HEADER)
    for name in MODELS:
        if not rows.have(name):
            rows.add(_one(name))
    growth, lean, share, slower = ([float(str(row[place])) for row in rows] for place in (5, 10, 11, 12))
    note = (
        f"from step 4 to {STEPS} x {statistics.median(growth):.2f} in the median, {max(growth):.2f} at most; with a "
        f"lean malloc x {statistics.median(lean):.2f}, {max(lean):.2f} at most, to {statistics.median(share):.2f} of "
        f"that, in {statistics.median(slower):.2f} of the time (at most {max(slower):.2f})"
    )
    tables.show("peaks in MiB, from step to step", HEADER, rows, note)


def _one(name: str) -> list[object]:
    batch = max(1, {**TUNING, **REPORTED}[name][1] // PART)
    ways = ({}, LEAN_MALLOC)
    seen = [[_run(name, batch, way) for way in ways] for _ in range(ROUNDS)]  # in turns
    print(name, *(f"{way[1]:.1f} s" for one in seen for way in one), file=sys.stderr, flush=True)
    kept, lean = ([max(one[way][0][place] for one in seen) for place in range(len(MARKS) + 3)] for way in (0, 1))
    slower = statistics.median(one[1][1] / one[0][1] for one in seen)
    *peaks, arenas, free = kept
    first, last = lean[0], lean[len(MARKS)]
    return [name, batch, *peaks, f"{peaks[-1] / peaks[0]:.2f}", arenas, free, first, last, f"{last / first:.2f}",
            f"{last / peaks[-1]:.2f}", f"{slower:.2f}"]  # fmt: skip


def _run(name: str, batch: int, changes: dict[str, str]) -> tuple[list[int], float]:
    """(MiB at the marks and in the end, arenas and MiB that are free in them, seconds of the later steps)"""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **changes}
    command = [sys.executable, "-m", "bench.growth", name, str(batch)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
                          check=True)  # fmt: skip
    *numbers, seconds = done.stdout.split()
    return [int(number) for number in numbers], float(seconds)


def train(name: str, batch: int) -> None:
    import keras

    keras.utils.set_random_seed(0)
    model, inputs = {**TUNING, **REPORTED}[name][0]()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    x, y = drawn(inputs, EPOCH * batch)
    times: list[float] = []

    def step(batch: int, logs: object = None) -> None:
        times.append(time.monotonic())
        if len(times) in (*MARKS, STEPS):
            print(_peak() >> 20)

    seen = keras.callbacks.LambdaCallback(on_train_batch_end=step)
    model.fit(x, y, batch_size=batch, epochs=STEPS // EPOCH, verbose=0, callbacks=[seen])
    print(*_arenas(), times[-1] - times[STEPS // 2])


def _peak() -> int:
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return 1024 * (int(fields["VmHWM"].split()[0]) - int(fields["RssFile"].split()[0]))


def _arenas() -> tuple[int, int]:
    """Arenas of more than a MiB, and the MiB that are free in them."""
    libc, text, length = ctypes.CDLL(None), ctypes.c_char_p(), ctypes.c_size_t()
    libc.open_memstream.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(length)))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    heaps = ElementTree.fromstring((text.value or b"").decode()).findall("heap")
    held = [int(heap.find("system[@type='current']").get("size")) for heap in heaps]  # type: ignore[union-attr,arg-type]
    free = [sum(int(total.get("size", 0)) for total in heap.findall("total")) for heap in heaps]
    large = [place for place, size in enumerate(held) if size > 1 << 20]
    return len(large), sum(free[place] for place in large) >> 20


if __name__ == "__main__":
    main()
