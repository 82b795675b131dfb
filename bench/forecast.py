"""The forecast beside the truth: `keepfit plan` of a script, and the peak of a fresh process that runs it.

BENCH_SET is tuning or reported; BENCH_CAPPED=1 also runs each script in a cgroup of the interval's upper end. Raw rows
go to the file that BENCH_ROWS names.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import stage

from . import tables
from .forecast_models import REPORTED, TUNING
from .rows import Rows

SETS = {"tuning": TUNING, "reported": REPORTED}
SET = os.environ.get("BENCH_SET", "reported")
MODELS = [name for name in os.environ.get("BENCH_MODELS", "").split(",") if name] or list(SETS[SET])
VARIANTS = os.environ.get("BENCH_VARIANTS", "sgd/arrays,adam/tfdata,adamw/arrays,sgd/tfdata,adam/arrays,adamw/tfdata")
SCALES = os.environ.get("BENCH_SCALES", "1,1.3")  # of the model's own batch
EACH = int(os.environ.get("BENCH_EACH", "3"))  # cells of the whole cross for each model, other ones for the next
STRIDE = 5  # from one cell to the next: all of them come before one comes again
CAPPED = bool(os.environ.get("BENCH_CAPPED"))
LARGE = 2.5  # times what importing takes: only such a peak counts
HEADER = ("model", "batch", "optimizer", "source", "after import", "peak", "measured", "low", "high", "static",
          "plan seconds", "static seconds", "capped", "cgroup peak")  # fmt: skip
AMPLE = 1 << 40  # bytes of a cgroup that only counts


def main() -> None:
    rows = Rows(HEADER)
    for cell in _cells():
        if not rows.have(*cell):
            rows.add(_one(*cell))
    _show([row for row in rows if isinstance(row[6], int)], rows)


def _cells() -> Iterator[tuple[str, int, str, str]]:
    """(model, batch, optimizer, source): for every model some, so that each of the cross comes about equally often."""
    cross = list(itertools.product(SCALES.split(","), (variant.split("/") for variant in VARIANTS.split(","))))
    for turn in range(min(EACH, len(cross))):
        for name in MODELS:
            number = list(SETS[SET]).index(name)
            scale, (optimizer, source) = cross[(number + turn * STRIDE) % len(cross)]
            yield name, max(1, int({**TUNING, **REPORTED}[name][1] * float(scale))), optimizer, source


def _command(name: str, batch: int, optimizer: str, source: str) -> list[str]:
    return [sys.executable, "-m", "bench.forecast_models", name, str(batch), optimizer, source]


def peak_of(command: list[str]) -> tuple[int, int] | None:
    """(peak of a fresh process, what it had after its imports) as the script prints them; None where it failed."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    found = re.search(r"^peak (\d+) after_import (\d+)", done.stdout, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else None


def planned(
    command: list[str], *options: str, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, Any] | None, str]:
    """(what `keepfit plan` says of it, or None; what it complained of)."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*stage.KEEPFIT, "plan", *options, "--json", "--", *command],
            capture_output=True, text=True, check=False,
            env={**stage.clean_environment(Path(folder)), "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})},
        )  # fmt: skip
    return (json.loads(done.stdout) if not done.returncode else None), done.stderr[-200:]


def _counted(command: list[str]) -> tuple[tuple[int, int] | None, int]:
    """(as `peak_of`; the most that its cgroup has used, files that it was the first to read included)."""
    if stage.why_no_cgroup():
        return peak_of(command), 0
    with stage.memory_cgroup(AMPLE) as directory:
        truth = peak_of([*stage.entering(directory), *command])
        counters = (Path(directory, name) for name in ("memory.max_usage_in_bytes", "memory.peak"))
        return truth, next((int(counter.read_text()) for counter in counters if counter.exists()), 0)


def _one(name: str, batch: int, optimizer: str, source: str) -> list[object]:
    command = _command(name, batch, optimizer, source)
    truth, used = _counted(command)
    if truth is None:
        return [name, batch, optimizer, source, 0, 0, "the script failed", 0, 0, 0, 0, 0, "", used]
    peak, after = truth
    began = time.monotonic()
    told, complaint = planned(command)
    seconds = time.monotonic() - began
    if told is None:
        return [name, batch, optimizer, source, after, peak, complaint, 0, 0, 0, seconds, 0, "", used]
    low, high = told["interval_bytes"]
    capped = _capped(command, high) if CAPPED else ""
    return [name, batch, optimizer, source, after, peak, told["predicted_peak_bytes"], low, high,
            told["static_peak_bytes"], round(seconds), round(told["seconds"]["static"], 2), capped, used]  # fmt: skip


def _capped(command: list[str], limit: int) -> str:
    if stage.why_no_cgroup():
        return "no cgroup"
    with stage.memory_cgroup(limit) as directory:
        done = subprocess.run([*stage.entering(directory), *command], capture_output=True, check=False)
    return "finished" if done.returncode == 0 else "failed"


def _show(good: list[list[object]], rows: list[list[object]]) -> None:
    large = [row for row in good if int(str(row[5])) >= LARGE * int(str(row[4]))]
    shown = []
    for row in good:
        after, peak, point, low, high, fixed = (int(str(value)) for value in row[4:10])
        shown.append([row[0], row[1], row[2], row[3], peak >> 20, point >> 20, f"{(point - peak) / peak:+.1%}",
                      f"{(fixed - peak) / peak:+.1%}", f"{(point - peak) / (peak - after):+.1%}",
                      "yes" if low <= peak <= high else "NO", row[12], "" if row in large else "small"])  # fmt: skip
    header = ("MODEL", "BATCH", "OPTIMIZER", "SOURCE", "PEAK MiB", "FORECAST", "ERROR", "STATIC", "ABOVE IMPORT",
              "IN INTERVAL", "CAPPED", "")  # fmt: skip
    tables.show(f"the forecast, {SET} models", header, shown, _note(large, rows))


def _note(large: list[list[object]], rows: list[list[object]]) -> str:
    if not large:
        return "no model was large enough to count"
    errors, above, static, widths = [], [], [], []
    for row in large:
        after, peak, point, low, high, fixed = (int(str(value)) for value in row[4:10])
        errors.append(abs(point - peak) / peak)
        above.append(abs(point - peak) / (peak - after))
        static.append(abs(fixed - peak) / peak)
        widths.append((high - low) / point)
    beside = [int(str(row[13])) / int(str(row[5])) - 1 for row in large if row[13]]
    failed = sum(row[12] == "failed" for row in large)
    capped = sum(row[12] in ("failed", "finished") for row in large)
    ninth = sorted(errors)[min(len(errors) - 1, int(0.9 * len(errors)))]
    return (
        f"{len(large)} of {len(rows)} count. Error: median {statistics.median(errors):.1%} (wanted ≤ 5 %), "
        f"90th percentile {ninth:.1%} (≤ 12 %); above import: median {statistics.median(above):.1%} (≤ 10 %); "
        f"static alone: median {statistics.median(static):.1%}; interval width: median "
        f"{statistics.median(widths):.1%} (≤ 20 %); capped at its upper end: {failed} of {capped} failed (≤ 5 %); "
        f"peak use of its cgroup beside its peak RSS: median {statistics.median(beside or [0.0]):+.1%}; "
        f"static beyond the trace: at most {max(float(str(row[11])) for row in large):.2f} s (≤ 2 s)"
    )


if __name__ == "__main__":
    main()
