"""The newest good state of a run as an ordinary Keras file.

    keepfit export RUN model.keras

It is written by the interpreter that trained the model. Where the architecture does not serialise (classes of
the script's own), the weights are written instead, as safetensors, and that is said.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..supervise import export
from . import UserError
from .selection import add_runs_directory, find_run, runs_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="an id, a unique prefix, a name, or latest")
    parser.add_argument("file", metavar="FILE.keras", help="where to write it")
    parser.add_argument(
        "--python", metavar="PATH", help="the Python that builds the model (default: the one that trained it)"
    )
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    target = Path(args.file)
    if target.suffix != ".keras":
        raise UserError(f"a file that ends in .keras was expected; received {args.file!r}")
    run = find_run(runs_directory(args), args.run)
    try:
        written = export.export(run, target, args.python)
    except export.CannotExport as error:
        raise UserError(str(error), error.status) from None
    if written.why:
        print(f"keepfit: no .keras file: {written.why}", file=sys.stderr)
    print(f"{written.path} ({written.what}, {written.of})")
    return 0
