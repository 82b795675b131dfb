"""python -m bench [NAME …]: run the named measurements, or all of them."""

from __future__ import annotations

import runpy
import sys

ALL = (
    "verdicts", "latency", "footprint", "tree500", "overhead", "kills", "exactness", "throughput", "budgets",
    "saving", "epochs", "recovery", "deaths", "gate", "blame", "healthy", "checking", "forecast", "pipelines",
    "largest", "sharpness", "options", "growth", "untouched",
)  # fmt: skip


def main() -> int:
    names = sys.argv[1:] or list(ALL)
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"bench: no such measurement: {', '.join(unknown)}; there are {', '.join(ALL)}", file=sys.stderr)
        return 64
    for name in names:
        sys.argv = [f"bench.{name}"]
        runpy.run_module(f"bench.{name}", run_name="__main__")
        print()
    return 0


raise SystemExit(main())
