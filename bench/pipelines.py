"""What an input pipeline will hold, beside the truth: twelve tf.data programs that feed a model of next to nothing."""

from __future__ import annotations

import os
import statistics
import sys

from . import tables
from .forecast import peak_of, planned
from .pipeline_programs import PROGRAMS

NAMES = [name for name in os.environ.get("BENCH_MODELS", "").split(",") if name] or list(PROGRAMS)


def main() -> None:
    rows, errors, above = [], [], []
    for name in NAMES:
        command = [sys.executable, "-m", "bench.pipeline_programs", name]
        truth, (told, _) = peak_of(command), planned(command)
        if truth is None or told is None:
            rows.append([name, "", "", "failed", ""])
            continue
        peak, after = truth
        point = told["predicted_peak_bytes"]
        errors.append(abs(point - peak) / peak)
        above.append(abs(point - peak) / max(1, peak - after))
        rows.append(
            [
                name,
                peak >> 20,
                point >> 20,
                f"{(point - peak) / peak:+.1%}",
                f"{(point - peak) / max(1, peak - after):+.1%}",
            ]
        )
        print(*rows[-1], sep="  ", flush=True)
    note = (
        f"median error {statistics.median(errors):.1%} (wanted ≤ 10 %), worst {max(errors):.1%}; of what is above the "
        f"import: median {statistics.median(above):.1%}"
    )
    tables.show("input pipelines", ("PROGRAM", "PEAK MiB", "FORECAST", "ERROR", "ABOVE IMPORT"), rows, note)


if __name__ == "__main__":
    main()
