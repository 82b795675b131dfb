"""What this machine lets keepfit see and do, and what to change to see more."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict

from ..report import style
from ..report.style import harmless
from ..supervise.abilities import examine
from .selection import add_json, add_runs_directory, print_json, runs_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    found = list(examine(os.environ, runs_directory(args)))
    if args.json:
        print_json({"schema": "keepfit.doctor/1", "abilities": [asdict(ability) for ability in found]})
        return 0
    paint = style.Style(style.wanted(sys.stdout))
    for ability in found:
        mark = paint("yes", "green") if ability.ok else paint("no ", "yellow")
        print(f"  {mark}  {ability.name:<24}{harmless(ability.says)}")
        if ability.change and not ability.ok:
            print(" " * 31 + paint(f"to change it: {ability.change}", "dim"))
    return 0
