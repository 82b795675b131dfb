"""What a training will need, before it is run: the script runs up to its first training call, and no further.

    keepfit plan [options] -- CMD …

As soon as its step is traced, the graph's forecast stands on stderr; some small batches are tried then, and within half
a minute what they have shown is printed, with what would make the training smaller. With --largest, --memory or --for
the largest batch that fits is looked for, too. All of that happens in processes that are thrown away: of the training
itself nothing does. Ctrl-C ends it at any time, from the training call on with what is known by then.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from ..facts import MemoryLimit
from ..plan import whole
from ..supervise import planning
from ..supervise.launch import CannotLaunch
from ..supervise.nested import stand_aside
from ..supervise.options import COMING, SEARCHING, PlanOptions
from . import UserError
from .run import parse as parse
from .selection import add_json, add_runs_directory, memory, positive, print_json, runs_directory, say, size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "keepfit plan [options] -- CMD …"
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="the memory to plan for (default: what this machine has left), and to look for the largest batch in",
    )
    parser.add_argument(
        "--for", dest="device", metavar="DEVICE", help='a device that is not here, such as "8GiB GPU" (less sure)'
    )
    parser.add_argument("--largest", action="store_true", help="look for the largest batch that fits")
    parser.add_argument("--reserve", metavar="SIZE", help="to be left free of it")
    parser.add_argument("--multiple-of", metavar="N", default="1", help="what the largest batch shall be a multiple of")
    parser.add_argument("--max", metavar="N", help="the largest batch that is of interest")
    parser.add_argument("--no-search", action="store_true", help=argparse.SUPPRESS)  # not even with --memory
    parser.add_argument(
        "--timeout", metavar="SECONDS", help=f"for the script to come to its training call (default: {COMING:.0f})"
    )
    parser.add_argument(
        "--search-for", metavar="SECONDS", help=f"for the search of the largest batch (default: {SEARCHING:.0f})"
    )
    add_runs_directory(parser)
    add_json(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …")


def main(args: argparse.Namespace) -> int:
    if not args.command or not args.command[0]:
        raise UserError("a command was expected after --, such as: keepfit plan -- python train.py")
    try:
        wanted = PlanOptions(
            argv=tuple(args.command),
            memory=memory(args),
            device=_device(args.device) if args.device is not None else None,
            reserve=0 if args.reserve in (None, "0") else size("--reserve", args.reserve),
            multiple=_whole("--multiple-of", args.multiple_of),
            most=_whole("--max", args.max) if args.max is not None else None,
            timeout=positive("--timeout", args.timeout) or COMING,
            search=(args.largest or args.memory is not None) and not args.no_search,
            search_for=positive("--search-for", args.search_for) or SEARCHING,
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
    else:
        from ..report import plan_text, style

        print(plan_text.render(document, style.wanted(sys.stdout), style.width(sys.stdout)))
        if document["small_trials"] and not (wanted.search or args.no_search):
            print("the largest batch was not looked for: keepfit plan --largest does that")
    return -signal.SIGINT if made.interrupted else 0


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
