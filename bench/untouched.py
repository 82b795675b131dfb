"""What a command that is no training feels of keepfit: its start, its children, its output."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests import stage
from tests.transparency.compare import LAUNCHER

from . import tables

STARTS, CHILDREN, FLOODS = 15, 40, 5
LINE = "x" * 99
GIGABYTE = 1_000_000_000
RUN_TRUE, CHILD_MS, ROWS_MORE, ROW_MS, LINES_RATIO, BLOCKS_MB = 0.25, 10.0, 3, 1.0, 1.15, 500


def seconds(command: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def interleaved(ways: list[Callable[[], float]], times: int) -> list[float]:
    """The median of each, taken in turns; one round before counts for nothing."""
    rounds = [[way() for way in ways] for _ in range(times + 1)][1:]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def start(run: list[str], environment: dict[str, str]) -> list[list[object]]:
    plain, again, kept = interleaved(
        [lambda: seconds(["true"], environment)] * 2 + [lambda: seconds([*run, "true"], environment)], STARTS
    )
    empty = statistics.median(seconds([*run, "true"], environment) for _ in range(STARTS))
    return [
        ["true, plainly", f"{plain:.3f} s", "", ""],
        ["true, plainly again", f"{again:.3f} s", "", ""],
        ["keepfit run -- true", f"{kept:.3f} s", f"≤ {RUN_TRUE} s", tables.verdict(kept <= RUN_TRUE)],
        ["keepfit run -- true, one after the other", f"{empty:.3f} s", "", ""],
    ]


CHILD = f"""
import subprocess, sys, time, statistics
took = []
for _ in range({CHILDREN}):
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"])
    took.append(time.perf_counter() - began)
print(statistics.median(took))
"""


def child(run: list[str], environment: dict[str, str]) -> list[list[object]]:
    def one(prefix: list[str]) -> float:
        command = [*prefix, sys.executable, "-S", "-c", CHILD]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    in_shell = ["sh", "-c", 'exec "$@"', "sh"]  # a shell in between, so that the first Python's -S keeps nobody out
    plain, again, kept = interleaved([lambda: one(in_shell), lambda: one(in_shell), lambda: one([*run, *in_shell])], 5)
    more = (kept - plain) * 1000
    return [
        ["python -c pass as a child", f"{plain * 1000:.1f} ms", "", ""],
        ["the same again", f"{again * 1000:.1f} ms", "", ""],
        ["the same under keepfit", f"{kept * 1000:.1f} ms", "", ""],
        ["more", f"{more:.1f} ms", f"≤ {CHILD_MS:.0f} ms", tables.verdict(more <= CHILD_MS)],
    ]


def imports(run: list[str], environment: dict[str, str]) -> list[list[object]]:
    """Rows of -X importtime, and the longest of those that are ours: its own time, the least of a few tries."""
    command = [sys.executable, "-X", "importtime", "-c", "pass"]

    def rows(prefix: list[str]) -> list[tuple[str, int]]:
        told = subprocess.run([*prefix, *command], env=environment, capture_output=True, text=True, check=True).stderr
        return [(name, int(own)) for own, name in re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", told)]

    plain = [name for name, _ in rows([])]
    tries = [rows(run) for _ in range(9)]
    more = len(tries[0]) - len(plain)
    longest = min(max(own for name, own in tried if name == "sitecustomize") for tried in tries) / 1000
    return [
        ["rows of -X importtime more", more, f"≤ {ROWS_MORE}", tables.verdict(more <= ROWS_MORE)],
        ["the longest of them", f"{longest:.2f} ms", f"≤ {ROW_MS} ms", tables.verdict(longest <= ROW_MS)],
    ]


FLOOD_WAYS = {
    "1 GB in lines of 100 bytes: seq": ["seq", "-f", "%099.0f", "1", str(GIGABYTE // 100)],
    "1 GB in lines of 100 bytes: base64": ["sh", "-c", f"base64 -w 99 /dev/zero | head -c {GIGABYTE}"],
    "1 GB in lines of 100 bytes: yes": ["sh", "-c", f"yes {LINE} | head -c {GIGABYTE}"],
    "1 GB in blocks of 64 KiB: dd": ["dd", "if=/dev/zero", "bs=64k", f"count={GIGABYTE >> 16}", "status=none"],
}


def floods(run: list[str], environment: dict[str, str]) -> list[list[object]]:
    found: list[list[object]] = []
    for name, command in FLOOD_WAYS.items():

        def drained(prefix: list[str], command: list[str] = command) -> float:
            piped = ["bash", "-c", '"$@" | cat >/dev/null', "bash", *prefix, *command]
            return seconds(piped, environment)

        plain, again, kept = interleaved([lambda: drained([]), lambda: drained([]), lambda: drained(run)], FLOODS)
        speed = f"{GIGABYTE / kept / 1e6:.0f} MB/s"
        ratio, same = kept / plain, again / plain
        if "blocks" in name:
            wanted, ok = f"≥ {BLOCKS_MB} MB/s", GIGABYTE / kept / 1e6 >= BLOCKS_MB
        else:
            wanted, ok = f"≤ {LINES_RATIO}", ratio <= LINES_RATIO
        found.append([name, f"{plain:.2f} s", f"{same:.2f}", f"{ratio:.2f}", speed, wanted, tables.verdict(ok)])
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        environment = stage.clean_environment(Path(scratch))
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        run = [str(LAUNCHER), "run", "--"]
        subprocess.run([*run, sys.executable, "-c", "pass"], env=environment, check=True)  # compiled files are there
        rows = [*start(run, environment), *child(run, environment), *imports(run, environment)]
        tables.show("A command that is no training", ("WHAT", "MEDIAN", "WANTED", "REACHED"), rows)
        print()
        header = ("OUTPUT INTO A PIPE THAT IS DRAINED", "PLAINLY", "A/A", "RATIO", "SPEED", "WANTED", "REACHED")
        note = f"The ratio holds keepfit's start too. {os.cpu_count()} cores."
        tables.show("Output", header, floods(run, environment), note)


if __name__ == "__main__":
    main()
