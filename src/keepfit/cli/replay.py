"""Open the batch of a step that was not finite again, in the user's own script's model.

    keepfit replay RUN

The script runs up to that `fit` and no further; then there is a Python prompt with model, x, y and what was found. With
--json what is found is printed instead.
"""

from __future__ import annotations

import argparse
import os

from ..supervise import replay
from . import UserError
from .selection import add_json, add_run, add_runs_directory, find_run, print_json, runs_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--batch", metavar="N", type=int, help="which of the saved batches (default: the last)")
    add_json(parser)
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    run = find_run(runs_directory(args), args.run)
    try:
        found = replay.replay(run, args.batch, os.environ, asked=not args.json)
    except replay.CannotReplay as error:
        raise UserError(str(error)) from None
    if found is not None:
        print_json({"schema": "keepfit.replay/1", "run": run.id, **found})
    return 0
