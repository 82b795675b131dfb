"""A hundred SIGKILLs at random moments: is the record readable, and how old is its last sample?

34 times the command is killed, 33 times both processes of the supervisor, 33 times all of them at once; the
machine is under full CPU load all the while. Twelve of the runs live until the ring wraps and are killed there.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests import stage

from keepfit.blackbox import journal, record, ring
from keepfit.blackbox.rundir import RunDirectory

from . import tables

KINDS = ["command"] * 34 + ["supervisor"] * 33 + ["all"] * 33
AT_THE_WRAP = 12
WRAP_SECONDS = ring.FAST.count * 0.05
FRESH = 0.100  # seconds


class Run:
    """One supervised sleeper in a runs directory of its own."""

    def __init__(self, place: Path) -> None:
        self.runs = place
        self.process = stage.start(
            place, [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
        )
        stage.wait_for_output(self.process, b"ready")
        self.command = stage.command_pid(place)
        self.judge = next(pid for pid in stage.children(self.process.pid) if pid != self.command)
        self.began = time.monotonic()

    def kill(self, kind: str) -> float:
        """Returns the moment of death."""
        targets = {
            "command": [self.command],
            "supervisor": [self.judge, self.process.pid],
            "all": [self.judge, self.process.pid, self.command],
        }[kind]
        died = time.monotonic()
        for pid in targets:
            os.kill(pid, signal.SIGKILL)
        if kind == "supervisor":
            os.kill(self.command, signal.SIGKILL)  # it went on, as it should; its time is not part of the question
        self.process.communicate(timeout=60)
        return died

    def examine(self, died: float) -> tuple[bool, float, str]:
        """(readable, age of the last sample at death, what was lost)."""
        directory = RunDirectory(next(path for path in self.runs.iterdir() if path.is_dir()))
        events, lost = journal.read(directory.folder)
        content = ring.read(directory.folder)
        whole = record.load(directory)
        readable = bool(events) and bool(content.samples) and bool(whole.attempts)
        before = [sample.time for sample in content.samples if sample.time <= died]
        age = died - before[-1] if before else float("inf")
        return readable, age, "; ".join([*lost, *content.lost])


def main() -> None:
    generator = random.Random(20261115)
    kinds = KINDS[:]
    generator.shuffle(kinds)
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    results: list[tuple[str, bool, bool, float, str]] = []
    try:
        with tempfile.TemporaryDirectory() as scratch:
            wrapping = [Run(Path(scratch, f"wrap{n}")) for n in range(AT_THE_WRAP)]
            threads = []
            for run, kind in zip(wrapping, kinds[:AT_THE_WRAP], strict=True):
                moment = run.began + WRAP_SECONDS + generator.uniform(-2.0, 2.0)
                threads.append(threading.Thread(target=_kill_later, args=(run, kind, moment, results)))
                threads[-1].start()
            for number, kind in enumerate(kinds[AT_THE_WRAP:]):
                run = Run(Path(scratch, f"run{number}"))
                time.sleep(generator.uniform(0.3, 1.5))
                results.append((kind, False, *run.examine(run.kill(kind))))
            for thread in threads:
                thread.join()
    finally:
        for process in load:
            process.kill()
            process.wait()
    _show(results)


def _kill_later(run: Run, kind: str, moment: float, results: list[tuple[str, bool, bool, float, str]]) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
    results.append((kind, True, *run.examine(run.kill(kind))))


def _show(results: list[tuple[str, bool, bool, float, str]]) -> None:
    rows = []
    for kind in ("command", "supervisor", "all", "at the wrap", "in all"):
        chosen = [r for r in results if kind == "in all" or (r[1] if kind == "at the wrap" else r[0] == kind)]
        ages = sorted(r[3] for r in chosen)
        readable = sum(r[2] for r in chosen)
        fresh = sum(age <= FRESH for age in ages)
        damaged = sum(bool(r[4]) for r in chosen)
        worst = f"{ages[-1] * 1000:.0f} ms"
        rows.append([kind, len(chosen), readable, fresh, f"{ages[len(ages) // 2] * 1000:.0f} ms", worst, damaged])
    total = rows[-1]
    enough = total[2] == len(results) and total[3] >= 0.99 * len(results)
    header = ("KILLED", "TIMES", "READABLE", "LAST SAMPLE ≤ 100 MS OLD", "MEDIAN AGE", "WORST", "RECORDS WITH LOSSES")
    note = f"wanted: all readable, at least 99 of 100 fresh; reached: {tables.verdict(enough)}"
    tables.show("SIGKILLs at random moments, all cores busy", header, rows, note)


if __name__ == "__main__":
    main()
