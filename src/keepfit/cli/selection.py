"""What several verbs share: choosing a run, the common options, numbers from the command line, a line for people."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, overload

from ..blackbox import index, rundir
from ..blackbox.rundir import RunDirectory
from ..machine.limits import parse_size
from . import UserError


def add_runs_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs-dir", metavar="DIR", help="where runs are recorded (default: $KEEPFIT_RUNS)")


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", default="latest", metavar="RUN", help="an id, a unique prefix, a name, or latest"
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout, nothing else there")


def runs_directory(args: argparse.Namespace) -> Path:
    chosen = args.runs_dir
    return Path(chosen).expanduser() if chosen else rundir.default_runs_directory(os.environ)


def find_run(runs: Path, wanted: str) -> RunDirectory:
    rows = index.rows(runs)
    if not rows:
        raise UserError(f"no runs are recorded in {runs}")
    found = index.find(rows, wanted)
    if isinstance(found, index.Row):
        return RunDirectory(runs / found.id)
    near = f"; near it: {', '.join(found)}" if found else "; `keepfit runs` lists them"
    raise UserError(f"no run is called {wanted!r}{near}")


def say(text: str) -> None:
    """A line for people, where stdout is for something else."""
    from ..report.style import one_line  # what somebody else's words in it do to a terminal is nothing

    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # nobody is reading any more
            os.write(2, f"keepfit: {one_line(text)}\n".encode(errors="backslashreplace"))


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


@overload
def size(name: str, text: str) -> int: ...
@overload
def size(name: str, text: str | None) -> int | None: ...
def size(name: str, text: str | None) -> int | None:
    try:
        return parse_size(text) if text is not None else None
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


def positive(name: str, text: str | None, what: str = "a number of seconds") -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise UserError(f"{name}: {what} above 0 was expected; received {text!r}")
    return value
