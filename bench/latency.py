"""Death to printed verdict, and how fast `why` answers."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import stage

from . import tables

DEATHS = 15
ANSWERS = 20


def death_to_verdict(runs: Path) -> float:
    process = stage.start(runs, stage.victim("killed_by_bystander.py"))
    stage.wait_for_output(process, b"ready")
    pid = stage.command_pid(runs)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    assert process.stderr is not None
    seen = b""
    while b"keepfit explain" not in seen:
        chunk = os.read(process.stderr.fileno(), 65536)
        assert chunk, seen
        seen += chunk
    took = time.monotonic() - began
    process.communicate()
    return took


def answer(runs: Path, *words: str) -> float:
    began = time.monotonic()
    subprocess.run([*stage.KEEPFIT, *words], env=stage.clean_environment(runs), capture_output=True, check=True)
    return time.monotonic() - began


def interpreter() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.monotonic() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch)
        deaths = [death_to_verdict(runs) for _ in range(DEATHS)]
        why = [answer(runs, "why") for _ in range(ANSWERS)]
        json_ = [answer(runs, "why", "--json") for _ in range(ANSWERS)]
        bare = [interpreter() for _ in range(ANSWERS)]
    rows = [
        ["death to printed verdict", *_numbers(deaths), "≤ 1 s", tables.verdict(max(deaths) <= 1.0)],
        ["keepfit why", *_numbers(why), "< 0.3 s", tables.verdict(statistics.median(why) < 0.3)],
        ["keepfit why --json", *_numbers(json_), "< 0.3 s", tables.verdict(statistics.median(json_) < 0.3)],
        ["(an empty interpreter)", *_numbers(bare), "", ""],
    ]
    tables.show("How fast it answers", ("WHAT", "MEDIAN", "WORST", "N", "WANTED", "REACHED"), rows)


def _numbers(values: list[float]) -> list[str]:
    return [f"{statistics.median(values):.3f} s", f"{max(values):.3f} s", str(len(values))]


if __name__ == "__main__":
    main()
