"""The catalogue of conditions, a line each."""

from __future__ import annotations

import argparse
import sys

from ..conditions.catalogue import Condition, all_conditions
from ..report import style, tables
from .selection import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    conditions = all_conditions()
    if args.json:
        print_json({"schema": "keepfit.rules/1", "rules": [_document(condition) for condition in conditions]})
        return 0
    rows = [[c.code, c.cause or "", c.root or "", c.title] for c in conditions]
    print(tables.render(("CODE", "CAUSE", "ROOT", "WHAT"), rows, style.width(sys.stdout), style.wanted(sys.stdout)))
    return 0


def _document(condition: Condition) -> dict[str, object]:
    return {
        "code": condition.code,
        "condition": condition.name,
        "title": condition.title,
        "cause": condition.cause,
        "root": condition.root,
        "severity": condition.severity,
        "moments": list(condition.moments),
    }
