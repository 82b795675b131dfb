"""`keepfit check`: how fast it reads, on one core, from the page cache, and how much memory it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from . import tables

SIZE = int(os.environ.get("BENCH_BYTES", str(2 << 30)))
ROUNDS = 3


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        _make(Path(folder))
        rows = []
        for name, file, options, wanted in (
            ("finite and ranges, 64 features", "wide.npy", [], 2000),
            ("finite and ranges, 4 features", "narrow.npy", [], 2000),
            ("and row hashes, 64 features", "wide.npy", ["--duplicates"], 500),
            ("and row hashes, 4 features (to disk)", "narrow.npy", ["--duplicates"], None),
            ("Parquet", "table.parquet", [], 300),
            ("CSV", "table.csv", [], None),
            ("the same CSV, pandas and isna()", "table.csv", None, None),
        ):
            found = min((_measure(Path(folder) / file, options) for _ in range(ROUNDS)), key=lambda one: one["seconds"])
            if "lacked" in found:
                rows.append([name, found["lacked"], "", "", "", "", ""])
                continue
            size = found["bytes"]
            speed = size / found["seconds"] / 1e6
            reached = tables.verdict(speed >= wanted) if wanted else ""
            memory = found["anonymous"] >> 20
            bound = tables.verdict(memory <= 200) if options is not None else ""
            rows.append(
                [name, f"{size / 1e9:.2f} GB", f"{speed:.0f} MB/s", wanted or "", reached, f"{memory} MiB", bound]
            )
    header = ("WHAT", "SIZE", "SPEED", "WANTED", "REACHED", "ANONYMOUS", "≤ 200")
    tables.show("keepfit check, one core, page cache, best of three", header, rows)


def _make(folder: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    for name, width in (("wide", 64), ("narrow", 4)):
        count = SIZE // (4 * width)
        array = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", "float32", (count, width))
        for start in range(0, count, 1 << 18):
            part = array[start : start + (1 << 18)]
            part[:] = random.random(part.shape, dtype="float32")
        array.flush()
        del array
    table = pa.table({f"c{i}": random.random(SIZE // 8 // 64) for i in range(8)})
    pq.write_table(table, folder / "table.parquet", compression="none", use_dictionary=False)
    pc.write_csv(table, folder / "table.csv")
    for path in folder.iterdir():  # into the page cache
        with path.open("rb") as file:
            while file.read(1 << 24):
                pass


def _measure(path: Path, options: list[str] | None) -> dict:
    words = ["pandas", str(path)] if options is None else ["check", str(path), *options]
    done = subprocess.run(
        ["taskset", "-c", "0", sys.executable, "-m", "bench.checking", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def inside(words: list[str]) -> None:
    """One measurement; the interpreter's own start is not in it, its memory is."""
    path, watch = words[1], Anonymous()
    if words[0] == "pandas":
        try:
            import pandas
        except ImportError as error:
            print(json.dumps({"lacked": str(error), "seconds": 0.0}))
            return
        began = time.perf_counter()
        frame = pandas.read_csv(path)
        frame.isna().sum()
    else:
        from keepfit.check.run import check

        began = time.perf_counter()
        check([path], duplicates="--duplicates" in words)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "bytes": os.path.getsize(path), "anonymous": watch.most()}))


class Anonymous(threading.Thread):
    """The most anonymous memory of this process, looked at a hundred times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._most = 0
        self.start()

    def run(self) -> None:
        while True:
            self._look()
            time.sleep(0.01)

    def _look(self) -> None:
        status = Path("/proc/self/status").read_text()
        self._most = max(self._most, int(status.split("RssAnon:")[1].split()[0]) * 1024)

    def most(self) -> int:
        self._look()
        return self._most


if __name__ == "__main__":
    inside(sys.argv[1:]) if len(sys.argv) > 1 else main()
