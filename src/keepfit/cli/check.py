"""Look through data files before they are trained on.

    keepfit check PATH… [--json] [--learn SCHEMA | --against SCHEMA] [--fix HOW --out FILE]

.npy, .npz, CSV, Parquet and TFRecord files, folders of pictures, and Python objects (module:name). Streamed, in
constant memory. Exit status 1 when an error was found, 2 when nothing could be read.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..facts import as_json
from ..report import style
from . import CANNOT_WRITE, UserError
from .selection import add_json, print_json

if TYPE_CHECKING:
    from ..check.run import Checked

FOUND, NOTHING_READ = 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files, folders of pictures, or module:name")
    parser.add_argument(
        "--duplicates", action="store_true", help="also rows that come twice (always for several files)"
    )
    parser.add_argument("--learn", metavar="SCHEMA", help="write what is normal here to a file")
    parser.add_argument("--against", metavar="SCHEMA", help="and compare with what was learnt")
    parser.add_argument("--fix", metavar="HOW", help="write a cleaned copy: mean, median, drop or clip")
    parser.add_argument("--out", metavar="FILE", help="where the cleaned copy goes")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    from ..check import schema  # NumPy and Arrow: for those who really check
    from ..check.run import check
    from ..report import check_text

    _sensible(args)
    try:
        known = schema.load(args.against) if args.against else None
    except schema.BadSchema as error:
        raise UserError(str(error)) from None
    with _progress(args.json) as advance:
        found = check(args.paths, args.duplicates or len(args.paths) > 1, known, advance)
    if args.learn and found.seen:
        _write(lambda: schema.write(args.learn, schema.learn(found.seen[0])), args.learn)
    if args.json:
        print_json({"schema": "keepfit.findings/1", "findings": [as_json(finding) for finding in found.findings]})
    else:
        print(check_text.render(found, style.wanted(sys.stdout)))
    if args.fix and found.seen:
        _fix(args)
    return _status(found)


def _sensible(args: argparse.Namespace) -> None:
    from ..check import fix

    if args.learn and args.against:
        raise UserError("--learn or --against was expected, not both")
    if args.learn and len(args.paths) != 1:
        raise UserError(f"--learn: one path was expected; received {len(args.paths)}")
    if bool(args.fix) != bool(args.out):
        raise UserError("--fix HOW and --out FILE belong together")
    if args.fix and args.fix not in fix.HOW:
        raise UserError(f"--fix: {', '.join(fix.HOW[:-1])} or {fix.HOW[-1]} was expected; received {args.fix!r}")
    if args.fix and len(args.paths) != 1:
        raise UserError(f"--fix: one path was expected; received {len(args.paths)}")


def _fix(args: argparse.Namespace) -> None:
    from ..check import fix

    try:
        count = fix.fix(args.paths[0], args.out, args.fix)
    except fix.CannotFix as error:
        raise UserError(str(error), CANNOT_WRITE) from None
    done = "rows were left out" if args.fix == "drop" else "values were replaced"
    print(f"{args.out}: {count} {done}", file=sys.stderr)


def _write(act: Callable[[], None], path: str) -> None:
    try:
        act()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", CANNOT_WRITE) from None


def _status(found: Checked) -> int:
    if not found.seen:
        return NOTHING_READ
    return FOUND if any(finding.severity == "error" for finding in found.findings) else 0


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar for a person who waits; nothing for a pipe."""
    if quiet or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn, TransferSpeedColumn

    columns = (SpinnerColumn(), "checking", TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("check", total=None)
        yield lambda count: bar.advance(task, count)
