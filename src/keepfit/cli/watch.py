"""Attach to a process that already runs, read-only, and say why when it dies. Ctrl-C detaches."""

from __future__ import annotations

import argparse
import os
import sys

from ..facts import verdict_json
from ..report import style, verdict_text
from ..supervise.watch import NotThere, find, watch
from . import UserError
from .selection import add_json, add_runs_directory, positive, print_json, runs_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pid", metavar="PID")
    parser.add_argument("--name", default="", help="a name for this record")
    parser.add_argument("--hang-after", metavar="SECONDS", help="warn after this long without any progress")
    add_json(parser)
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    if not args.pid.isdigit():
        raise UserError(f"a process id was expected; received {args.pid!r}")
    try:
        find(int(args.pid))
        print(f"keepfit: watching pid {args.pid} (Ctrl-C detaches; nothing is sent to it)", file=sys.stderr)
        verdict = watch(
            int(args.pid),
            runs_directory(args),
            os.environ,
            args.name,
            positive("--hang-after", args.hang_after),
        )
    except NotThere as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        print("keepfit: detached; the process goes on", file=sys.stderr)
        return 0
    if args.json:
        print_json(verdict_json(verdict))
    else:
        print(verdict_text.render(verdict, style.wanted(sys.stdout), style.width(sys.stdout)))
    return 0
