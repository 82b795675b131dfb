"""Priced options, beside the truth: what `keepfit plan` says of an option, and a fresh process that takes it."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys

from . import tables
from .forecast import planned
from .forecast_models import REPORTED, TUNING

MODELS = os.environ.get("BENCH_MODELS", "plain_conv,encoder,mlp,MobileNetV2,lstm").split(",")
OPTIMIZERS = ("SGD", "Lion", "Adafactor")


def main() -> None:
    rows: list[list[object]] = []
    errors: list[float] = []
    for name in MODELS:
        batch = {**TUNING, **REPORTED}[name][1]
        base, told = _tried(name, batch, "adam", "as it is"), planned(_command(name, batch, "adam"))[0]
        if base is None or told is None:
            rows.append([name, "failed", "", "", "", "", ""])
            continue
        for option in told["options"]:
            found = _take(name, batch, option)
            if found is None:
                continue
            (peak, seconds), (was, took) = found, base
            predicted = option["predicted_peak_bytes"]
            errors.append(abs(predicted - peak) / peak)
            slower = f"{option['slowdown']:.2f}" if option["slowdown"] else "?"
            rows.append([name, f"{option['name']} {option['value']}", was >> 20, predicted >> 20, peak >> 20,
                         f"{(predicted - peak) / peak:+.1%}", slower, f"{seconds / took:.2f}"])  # fmt: skip
            print(*rows[-1], sep="  ", flush=True)
    header = ("MODEL", "OPTION", "PEAK WITHOUT", "PREDICTED", "PEAK WITH", "ERROR", "TIME PREDICTED", "MEASURED")
    tables.show("priced options", header, rows, f"median error {statistics.median(errors):.1%} of {len(errors)}")


def _take(name: str, batch: int, option: dict[str, object]) -> tuple[int, float] | None:
    """What a training with the option needs and takes; None where it cannot be taken from outside."""
    kind = option["name"]
    if kind == "optimizer":
        return _tried(name, batch, str(option["value"]).lower(), "as it is")
    if kind in ("mixed_precision", "freeze", "lora"):
        return _tried(name, batch, "adam", str(kind))
    return None


def _command(name: str, batch: int, optimizer: str) -> list[str]:
    return [sys.executable, "-m", "bench.forecast_models", name, str(batch), optimizer, "arrays"]


def _tried(name: str, batch: int, optimizer: str, option: str) -> tuple[int, float] | None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "BENCH_OPTION": option}
    done = subprocess.run(
        _command(name, batch, optimizer), capture_output=True, text=True, env=environment, check=False
    )
    peak, seconds = (re.search(rf"^{word} ([\d.]+)", done.stdout, re.MULTILINE) for word in ("peak", "seconds"))
    return (int(peak[1]), float(seconds[1])) if peak and seconds else None


if __name__ == "__main__":
    main()
