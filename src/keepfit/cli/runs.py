"""List recorded runs, oldest first."""

from __future__ import annotations

import argparse
import shlex
import sys
import time

from ..blackbox import index
from ..blackbox.rundir import RunDirectory
from ..report import style, tables
from ..supervise.conclude import state_of
from .selection import add_json, add_runs_directory, print_json, runs_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    runs = runs_directory(args)
    stored = index.rows(runs)
    rows = [state_of(RunDirectory(runs / row.id), row) for row in stored]
    index.put(runs, [new for new, old in zip(rows, stored, strict=True) if new != old])
    if args.json:
        print_json({"schema": "keepfit.runs/1", "runs": [_document(row) for row in rows]})
    elif not rows:
        print(f"no runs are recorded in {runs}", file=sys.stderr)
    else:
        now = time.time()
        table = [
            [
                row.id,
                row.name,
                row.state,
                row.cause or "-",
                f"{tables.age(now - row.started_at)} ago",
                shlex.join(row.argv),
            ]
            for row in rows
        ]
        header = ("RUN", "NAME", "STATE", "CAUSE", "STARTED", "COMMAND")
        print(tables.render(header, table, colours=style.wanted(sys.stdout)))
    return 0


def _document(row: index.Row) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "state": row.state,
        "cause": row.cause or None,
        "code": row.code or None,
        "confidence": row.confidence or None,
        "argv": row.argv,
        "cwd": row.cwd,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
    }
