"""What several verbs share: choosing a run, the common options, numbers from the command line, a line for people."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, overload

from ..blackbox import index, rundir, shapes
from ..blackbox.folder import NotOurs
from ..blackbox.rundir import RunDirectory
from ..machine.limits import parse_budget, parse_size
from ..supervise.words import complain
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
    found = Path(chosen).expanduser() if chosen else rundir.default_runs_directory(os.environ)
    return found.absolute()  # the command may go elsewhere, and its agent must find it


def all_rows(runs: Path) -> list[index.Row]:
    """Every run that is recorded there, oldest first; that some are not ours is said."""
    try:
        rows, others = index.rows(runs), rundir.of_others(runs)
    except NotOurs as error:
        raise UserError(f"{error.filename} is not used as a runs directory: it {error.strerror}") from None
    if others:
        many = f"{others} entries in {runs} belong" if others > 1 else f"1 entry in {runs} belongs"
        say(f"{many} to others or can be changed by them, and counts for nothing")
    return rows


def find_run(runs: Path, wanted: str) -> RunDirectory:
    return RunDirectory(runs / find_row(runs, all_rows(runs), wanted).id)


def find_row(runs: Path, rows: list[index.Row], wanted: str) -> index.Row:
    if not rows:
        raise UserError(f"no runs are recorded in {runs}")
    found = index.find(rows, wanted)
    if isinstance(found, index.Row):
        return found
    near = f"; near it: {', '.join(found)}" if found else "; `keepfit runs` lists them"
    raise UserError(f"no run is called {wanted!r}{near}")


def say(text: str) -> None:
    """A line for people, where stdout is for something else."""
    from ..report.style import one_line  # what somebody else's words in it do to a terminal is nothing

    complain(one_line(text))


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(shapes.plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def memory(args: argparse.Namespace) -> int | None:
    """`--memory`, else `$KEEPFIT_MEMORY`."""
    typed: str | None = args.memory
    name, text = ("--memory", typed) if typed is not None else ("KEEPFIT_MEMORY", os.environ.get("KEEPFIT_MEMORY"))
    try:
        return parse_budget(text or "") if text or typed is not None else None
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


@overload
def size(name: str, text: str) -> int: ...
@overload
def size(name: str, text: str | None) -> int | None: ...
def size(name: str, text: str | None) -> int | None:
    try:
        return parse_size(text) if text is not None else None
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


_SPANS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def span(name: str, text: str) -> float:
    """`30d`, `12h`, `90min` in seconds."""
    digits = text.strip().rstrip("".join(set("".join(_SPANS))))
    unit = _SPANS.get(text.strip()[len(digits) :])
    try:
        if unit is not None and 0 <= (value := float(digits)) < 1e6:
            return value * unit
    except ValueError:
        pass  # told below
    raise UserError(f"{name}: an age was expected, such as 30d or 12h; received {text!r}")


def moment(name: str, text: str | None) -> float | None:
    """A point in time: a date, a date and a time, or how long ago that is."""
    if text is None:
        return None
    from datetime import datetime

    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(text).timestamp()
    with contextlib.suppress(UserError):
        return time.time() - span(name, text)
    raise UserError(f"{name}: an age or a date was expected, such as 2d or 2026-11-19; received {text!r}")


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
