"""Priced options, beside the truth: what `keepfit plan` says of an option, and a fresh process that takes it.

Micro-batches are taken as `keepfit run` takes them, held to what the plan promises. Another machine has no row.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import stage

from keepfit.plan.forecast import LEAN_MALLOC

from . import tables
from .forecast import planned
from .forecast_models import REPORTED, TUNING
from .rows import Rows

MODELS = os.environ.get("BENCH_MODELS", "plain_conv,encoder,mlp,MobileNetV2,lstm").split(",")
PROGRAMS = os.environ.get("BENCH_PROGRAMS", "shuffled_images,cached,from_slices").split(",")
STEPS = os.environ.get("BENCH_STEPS", "").split()  # of a model's training, where it is to be longer than usual
ONLY = os.environ.get("BENCH_OPTIONS", "").split()  # such options; all of them where none is named
HEADER = ("MODEL", "OPTION", "PEAK WITHOUT", "PREDICTED", "PEAK WITH", "TIME PREDICTED", "MEASURED")


def main() -> None:
    rows = Rows(HEADER)
    commands = {name: _model(name, "adam") for name in MODELS}
    commands |= {name: [sys.executable, "-m", "bench.pipeline_programs", name] for name in PROGRAMS if name}
    for name, command in commands.items():
        if not rows.have(name):
            for row in list(_tried_all(name, command)):  # all of one, or none: what stands there is not done again
                rows.add(row)
    errors = [abs(float(str(row[3])) / float(str(row[4])) - 1) for row in rows if row[4]]
    note = f"median error {statistics.median(errors):.1%} of {len(errors)}" if errors else "nothing could be tried"
    shown = [[*row[:5], f"{float(str(row[3])) / float(str(row[4])) - 1:+.1%}", *row[5:]] for row in rows if row[4]]
    tables.show("priced options (MiB)", (*HEADER[:5], "ERROR", *HEADER[5:]), shown, note)


def _tried_all(name: str, command: list[str]) -> Iterator[list[object]]:
    """The training as it is comes before all options and after them: a shared machine is not always as fast."""
    first, told = _tried(command, {"BENCH_OPTION": "as it is"}), planned(command)[0]
    offered = [option for option in (told or {"options": []})["options"] if not ONLY or option["name"] in ONLY]
    taken = [(option, _take(name, command, option)) for option in offered]
    last = _tried(command, {"BENCH_OPTION": "as it is"})
    if first is None or last is None or told is None:
        yield [name, "failed", *[""] * (len(HEADER) - 2)]
        return
    was, took = (sum(pair) / 2 for pair in zip(first, last, strict=True))
    for option, found in taken:
        if found is not None:
            peak, seconds = found
            slower = f"{option['slowdown']:.2f}" if option["slowdown"] else "?"
            yield [name, f"{option['name']} {option['value']}", int(was) >> 20, option["predicted_peak_bytes"] >> 20,
                   peak >> 20, slower, f"{seconds / took:.2f}"]  # fmt: skip


def _take(name: str, command: list[str], option: Mapping[str, Any]) -> tuple[int, float] | None:
    """What a training with the option needs and takes; None where it cannot be taken from outside."""
    kind, value = option["name"], option["value"]
    if kind == "optimizer":
        return _tried(_model(name, str(value).lower()), {"BENCH_OPTION": "as it is"})
    if kind in ("mixed_precision", "freeze", "lora", "recompute", "smaller_model"):
        return _tried(command, {"BENCH_OPTION": str(kind)})
    if kind == "lean_malloc":
        return _tried(command, {"BENCH_OPTION": "as it is", **LEAN_MALLOC})
    if kind == "streaming":
        return _tried(command, {"BENCH_STREAMED": "1"}) if name in PROGRAMS else None
    if kind == "shuffle_buffer":
        return _tried(command, {"BENCH_SHUFFLE": str(value)})
    with tempfile.TemporaryDirectory() as folder:
        if kind == "cache_on_disk":
            return _tried(command, {"BENCH_CACHE": str(Path(folder, "cache"))})
        if kind == "micro_batch":
            run = [*stage.KEEPFIT, "run", "--memory", str(option["predicted_peak_bytes"]), "--", *command]
            return _tried(run, {**stage.clean_environment(Path(folder)), "BENCH_OPTION": "as it is"})
    return None


def _model(name: str, optimizer: str) -> list[str]:
    batch = {**TUNING, **REPORTED}[name][1]
    return [sys.executable, "-m", "bench.forecast_models", name, str(batch), optimizer, "arrays", *STEPS]


def _tried(command: list[str], changes: Mapping[str, str]) -> tuple[int, float] | None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **changes}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    peak, seconds = (re.search(rf"^{word} ([\d.]+)", done.stdout, re.MULTILINE) for word in ("peak", "seconds"))
    return (int(peak[1]), float(seconds[1])) if peak and seconds else None


if __name__ == "__main__":
    main()
