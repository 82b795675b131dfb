"""What the supervisor itself costs while a training runs: memory of both processes, CPU."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from tests import stage

from keepfit.machine import procfs

from . import tables

SECONDS = 30.0
MIB = 1 << 20


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch)
        code = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.01); sum(range(1000))"
        process = stage.start(runs, [os.sys.executable, "-c", code])  # type: ignore[attr-defined]
        stage.wait_for_output(process, b"ready")
        front = process.pid
        command = stage.command_pid(runs)
        judge = next(pid for pid in stage.children(front) if pid != command)
        time.sleep(2)  # past its start
        before = {pid: _cpu(pid) for pid in (front, judge)}
        began = time.monotonic()
        time.sleep(SECONDS)
        took = time.monotonic() - began
        rows = []
        total = 0.0
        memory = 0
        for name, pid in (("front", front), ("judge", judge)):
            share = (_cpu(pid) - before[pid]) / took
            status = procfs.status(pid)
            rollup = procfs.fields(procfs.read_bytes(f"/proc/{pid}/smaps_rollup"))
            total += share
            memory = max(memory, status["VmRSS"])
            rows.append([name, f"{status['VmRSS'] / MIB:.1f} MiB", f"{rollup['Pss'] / MIB:.1f} MiB", f"{share:.2%}"])
        os.kill(command, 9)
        process.communicate()
    reached = tables.verdict(memory <= 30 * MIB and total <= 0.01)
    rows.append(["wanted", "≤ 30 MiB each", "", "≤ 1 % together"])
    rows.append(["reached", reached, "", f"{total:.2%}"])
    tables.show("The supervisor's footprint", ("PROCESS", "RSS", "PSS", "CPU OF ONE CORE"), rows)


def _cpu(pid: int) -> float:
    known = procfs.stat(pid)
    return known.cpu if known else 0.0


if __name__ == "__main__":
    main()
