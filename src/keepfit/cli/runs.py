"""List recorded runs, oldest first, or remove some.

People see the last 20; --all, --state, --cause and --since choose others. --json gives all that was not filtered out.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from ..blackbox import index
from ..blackbox.rundir import RunDirectory
from ..conditions.reading import size
from ..report import style, tables
from ..supervise.conclude import state_of
from ..supervise.records import is_in_use
from . import UserError
from .selection import add_json, add_runs_directory, all_rows, find_row, moment, print_json, runs_directory, say, span

SHOWN = 20
STATES = ("running", "finished", "died", "unknown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help=f"all of them, not the last {SHOWN}")
    parser.add_argument("--state", choices=STATES, help="only those in this state")
    parser.add_argument("--cause", metavar="CAUSE", help="only those that ended by this cause (cgroup_oom, …)")
    parser.add_argument("--since", metavar="TIME", help="only those begun since: 2d, 3h, 2026-11-19, 2026-11-19T08:00")
    parser.add_argument("--remove", metavar="RUN", nargs="+", help="remove these records, saved states included")
    parser.add_argument("--remove-older", metavar="AGE", help="remove what began longer ago than that: 30d, 12h")
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    add_json(parser)
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    runs = runs_directory(args)
    since = moment("--since", args.since)
    oldest = time.time() - span("--remove-older", args.remove_older) if args.remove_older else None
    if args.yes and not (args.remove or args.remove_older):
        raise UserError("--yes: --remove or --remove-older was expected with it")
    known = _judged(runs)
    if args.remove:
        return _remove(runs, [find_row(runs, known, word) for word in args.remove], args)
    chosen = [row for row in known if _is_wanted(row, args, since)]
    if oldest is not None:
        return _remove(runs, [row for row in chosen if row.started_at < oldest], args)
    if args.json:
        print_json({"schema": "keepfit.runs/1", "runs": [_document(row) for row in chosen]})
        return 0
    _show(runs, chosen, known, args.all or since is not None)
    return 0


def _judged(runs: Path) -> list[index.Row]:
    """All of them; one that was cut off is judged now."""
    stored = all_rows(runs)
    rows = [state_of(RunDirectory(runs / row.id), row) for row in stored]
    index.put(runs, [new for new, old in zip(rows, stored, strict=True) if new != old])
    return rows


def _is_wanted(row: index.Row, args: argparse.Namespace, since: float | None) -> bool:
    return (
        (args.state is None or row.state == args.state)
        and (args.cause is None or row.cause == args.cause)
        and (since is None or row.started_at >= since)
    )


def _show(runs: Path, chosen: list[index.Row], known: list[index.Row], whole: bool) -> None:
    if not chosen:
        say(f"none of the {len(known)} runs in {runs} is one of those" if known else f"no runs are recorded in {runs}")
        return
    shown, now = chosen if whole else chosen[-SHOWN:], time.time()
    table = [
        [row.id, row.name, row.state, row.cause or "-", tables.ago(now - row.started_at), size(row.bytes),
         shlex.join(row.argv)]
        for row in shown
    ]  # fmt: skip
    header = ("RUN", "NAME", "STATE", "CAUSE", "STARTED", "SIZE", "COMMAND")
    print(tables.render(header, table, style.width(sys.stdout), style.wanted(sys.stdout)))
    if len(shown) < len(chosen):
        say(f"the last {len(shown)} of {len(chosen)} runs; keepfit runs --all lists them all")


def _remove(runs: Path, doomed: list[index.Row], args: argparse.Namespace) -> int:
    """What goes is named first, with its size; a run that lives never goes."""
    alive = [row for row in doomed if is_in_use(RunDirectory(runs / row.id))]
    if alive and args.remove:
        raise UserError(f"run {alive[0].id} is in use; nothing was removed")
    doomed = [row for row in dict.fromkeys(doomed) if row not in alive]
    for row in alive:
        say(f"{row.id} is in use, and stays")
    total = f"{len(doomed)} run{'s' * (len(doomed) != 1)}, {size(sum(row.bytes for row in doomed))}"
    for row in doomed:
        label = f"{row.id}  {row.state}  {size(row.bytes)}  {shlex.join(row.argv)}"
        print(style.one_line(label), file=sys.stderr)
    if doomed and not args.yes and not _agreed(total):
        return 0
    removed = [row for row in doomed if _gone(RunDirectory(runs / row.id))]
    index.forget(runs, [row.id for row in removed])
    if args.json:
        print_json({"schema": "keepfit.removed/1", "removed": [_document(row) for row in removed]})
    else:
        say(f"removed: {total}" if removed == doomed else f"removed: {len(removed)} of {total}")
    return 0 if removed == doomed else 1


def _agreed(total: str) -> bool:
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(f"{total} would go: a terminal to ask on, or --yes, was expected; nothing was removed")
    print(f"keepfit: remove {total}? [y/N] ", end="", file=sys.stderr, flush=True)
    agreed = sys.stdin.readline().strip().lower() in ("y", "yes")
    if not agreed:
        say("nothing was removed")
    return agreed


def _gone(run: RunDirectory) -> bool:
    run.remove()
    return not run.path.exists()


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
        "bytes": row.bytes,
    }
