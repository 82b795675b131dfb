"""A tree of 500 processes: how often it is sampled, and what that costs."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

from tests import stage

from keepfit.blackbox import ring
from keepfit.blackbox.folder import Folder
from keepfit.machine import procfs

from . import tables

PROCESSES = 500
SECONDS = 30.0
PARENT = f"""
import os, signal, time
for n in range({PROCESSES - 1}):
    if os.fork() == 0:
        signal.pause()
        os._exit(0)
print('ready', flush=True)
while True: time.sleep(0.1)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch)
        process = stage.start(runs, [sys.executable, "-c", PARENT])
        stage.wait_for_output(process, b"ready")
        command = stage.command_pid(runs)
        judge = next(pid for pid in stage.children(process.pid) if pid != command)
        time.sleep(3)
        cpu, began = procfs.stat(judge), time.monotonic()
        time.sleep(SECONDS)
        now, after = time.monotonic(), procfs.stat(judge)
        assert cpu is not None and after is not None
        share = (after.cpu - cpu.cpu) / (now - began)
        directory = next(path for path in runs.iterdir() if path.is_dir())
        samples = [s for s in ring.read(Folder.open(str(directory))).samples if began <= s.time <= now]
        os.killpg(command, 9)
        process.communicate()
    rate = len(samples) / (now - began)
    seen = max(sample.processes for sample in samples)
    gaps = [b.time - a.time for a, b in itertools.pairwise(samples)]
    rows = [
        ["processes seen", seen, PROCESSES, tables.verdict(seen >= PROCESSES)],
        ["samples a second", f"{rate:.1f}", "≥ 5", tables.verdict(rate >= 4.95)],
        ["longest gap", f"{max(gaps) * 1000:.0f} ms", "", ""],
        ["judge's CPU, of one core", f"{share:.2%}", "≤ 5 %", tables.verdict(share <= 0.05)],
    ]
    tables.show(f"A tree of {PROCESSES} processes", ("WHAT", "MEASURED", "WANTED", "REACHED"), rows)


if __name__ == "__main__":
    main()
