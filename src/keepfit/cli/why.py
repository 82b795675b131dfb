"""Why a run died: cause, confidence, evidence, and what to do. Default: the latest run."""

from __future__ import annotations

import argparse
import sys

from ..facts import verdict_json
from ..report import style, verdict_text
from ..supervise.conclude import revisit
from .selection import add_json, add_run, add_runs_directory, find_run, print_json, runs_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_json(parser)
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    verdict = revisit(find_run(runs_directory(args), args.run))
    if args.json:
        print_json(verdict_json(verdict))
    else:
        print(verdict_text.render(verdict, style.wanted(sys.stdout), style.width(sys.stdout)))
    return 0
