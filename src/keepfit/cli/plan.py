"""What a training will need, before it is run: the script runs up to its first training call, and no further.

    keepfit plan [options] -- CMD …

There some small batches and the largest are tried, in processes that are thrown away: of the training itself nothing
happens. The forecast, the largest batch that fits and what would make it smaller are printed.
"""

from __future__ import annotations

import argparse
import os
import sys

from ..facts import MemoryLimit
from ..plan import whole
from ..supervise import planning
from ..supervise.launch import CannotLaunch
from ..supervise.nested import stand_aside
from . import UserError
from .run import parse as parse
from .selection import add_json, add_runs_directory, memory, positive, print_json, runs_directory, say, size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "keepfit plan [options] -- CMD …"
    parser.add_argument("--memory", metavar="SIZE", help="the memory to plan for (default: what this machine has left)")
    parser.add_argument(
        "--for", dest="device", metavar="DEVICE", help='a device that is not here, such as "8GiB GPU" (less sure)'
    )
    parser.add_argument("--reserve", metavar="SIZE", help="to be left free of it")
    parser.add_argument("--multiple-of", metavar="N", default="1", help="what the largest batch shall be a multiple of")
    parser.add_argument("--max", metavar="N", help="the largest batch that is of interest")
    parser.add_argument("--no-search", action="store_true", help="do not look for the largest batch")
    parser.add_argument("--timeout", metavar="SECONDS", help="for the script to come to its training call")
    add_runs_directory(parser)
    add_json(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …")


def main(args: argparse.Namespace) -> int:
    if not args.command or not args.command[0]:
        raise UserError("a command was expected after --, such as: keepfit plan -- python train.py")
    try:
        wanted = planning.PlanOptions(
            argv=tuple(args.command),
            memory=memory(args),
            device=_device(args.device) if args.device is not None else None,
            reserve=0 if args.reserve in (None, "0") else size("--reserve", args.reserve),
            multiple=_whole("--multiple-of", args.multiple_of),
            most=_whole("--max", args.max) if args.max is not None else None,
            timeout=positive("--timeout", args.timeout) or planning.SECONDS,
            search=not args.no_search,
            runs=runs_directory(args),
            say=say,
        )
        stand_aside(wanted.argv, os.environ, wanted.memory, args.before, say)
        made = planning.plan(wanted, os.environ)
    except ValueError as error:
        raise UserError(str(error)) from None
    except CannotLaunch as error:
        raise UserError(str(error), error.status) from None
    document = whole.document(made)
    if args.json:
        print_json(document)
        return 0
    from ..report import plan_text, style

    print(plan_text.render(document, style.wanted(sys.stdout), style.width(sys.stdout)))
    return 0


def _device(text: str) -> MemoryLimit:
    words = text.split()
    kind = words[-1].lower() if len(words) == 2 else ""
    if kind != "gpu":
        raise UserError(f'--for: a size and GPU was expected, such as "8GiB GPU"; received {text!r}')
    return MemoryLimit(size("--for", words[0]), text, "device")


def _whole(name: str, text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise UserError(f"{name}: a whole number from 1 was expected; received {text!r}")
    return int(text)
