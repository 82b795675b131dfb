"""A Python object named module:name, looked at in an interpreter of its own: the framework stays out of this one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np

from .columns import Bad, Columns
from .summary import Seen, Unreadable

_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
LONGEST = 3600.0  # seconds
MARK = "keepfit-check:"  # before the answer, whatever else a module prints


def is_target(path: str) -> bool:
    return _TARGET.fullmatch(path) is not None


def read(path: str) -> Seen:
    environment = {**os.environ, "KEEPFIT_DISABLE": "1"}
    command = [sys.executable, "-m", "keepfit.check.target", path]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=LONGEST, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise Unreadable(f"not at its end after {LONGEST:.0f} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise Unreadable(lines[-1][:200] if lines else f"its interpreter ended with status {done.returncode}")
    answer = next((line for line in reversed(done.stdout.splitlines()) if line.startswith(MARK)), None)
    if answer is None:
        raise Unreadable("its interpreter ended before it was looked at")
    return _seen(path, json.loads(answer.removeprefix(MARK)))


def _seen(path: str, told: dict[str, Any]) -> Seen:
    seen = Seen(path, "target", rows=told["rows"], read=True)
    for column in told["columns"]:
        found = Columns(column["name"], column["dtype"], tuple(column["shape"]), rows=column["rows"])
        found.bad = Bad(column["nan"], column["inf"], [(row, place, value) for row, place, value in column["first"]])
        found.values = {int(key): count for key, count in column["values"].items()} if column["values"] else None
        if column["low"] is not None:
            found.low, found.high = np.array(column["low"], float), np.array(column["high"], float)
        seen.columns.append(found)
    for kind, message in told["problems"]:
        seen.problem(kind, message)
    return seen


def main(words: list[str]) -> int:
    """In the child: what is seen of the object, as one line of JSON, the last one on stdout."""
    from .objects import see

    module, _, name = words[0].partition(":")
    sys.path.insert(0, os.getcwd())
    found: Any = __import__(module, fromlist=["_"])
    for part in name.split("."):
        found = getattr(found, part)
    seen = see(found() if callable(found) and not hasattr(found, "__getitem__") else found, words[0])
    columns = [
        {
            "name": one.name, "dtype": one.dtype, "shape": list(one.shape), "rows": one.rows, "nan": one.bad.nan,
            "inf": one.bad.inf, "first": one.bad.first, "values": one.values,
            "low": None if one.low is None else np.asarray(one.low, float).tolist(),
            "high": None if one.high is None else np.asarray(one.high, float).tolist(),
        }
        for one in seen.columns
    ]  # fmt: skip
    problems = [(problem.kind, problem.message) for problem in seen.problems]
    print(MARK + json.dumps({"rows": seen.rows, "columns": columns, "problems": problems}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
