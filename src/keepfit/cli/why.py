"""Why a run died: cause, confidence, evidence, and what to do. Default: the latest run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from ..facts import Remedy, verdict_json
from ..report import style, verdict_text
from ..supervise import way_on
from ..supervise.conclude import revisit
from .selection import add_json, add_run, add_runs_directory, find_run, print_json, runs_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_json(parser)
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    run = find_run(runs_directory(args), args.run)
    verdict = revisit(run)
    further = way_on.of(run, verdict)
    if args.json:
        if further is not None:
            remedy = Remedy(f"go on from {further.saved_at}", further.command)
            verdict = replace(verdict, remedies=(*verdict.remedies, remedy))
        print_json(verdict_json(verdict))
        return 0
    told = (further.saved_at, further.command) if further is not None else ("", "")
    print(verdict_text.render(verdict, style.wanted(sys.stdout), style.width(sys.stdout), *told))
    return 0
