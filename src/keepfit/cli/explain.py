"""The long story of one condition: what happened, how keepfit knows, what to do."""

from __future__ import annotations

import argparse
import sys

from ..conditions.catalogue import Condition, all_conditions
from ..report import style
from . import UserError
from .selection import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", metavar="CODE", help="a code (KF101), a condition's name, or a cause (cgroup_oom)")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    condition = _find(args.code)
    if args.json:
        print_json(
            {
                "schema": "keepfit.explanation/1",
                "code": condition.code,
                "condition": condition.name,
                "title": condition.title,
                "text": condition.doc,
            }
        )
        return 0
    paint = style.Style(style.wanted(sys.stdout))
    print(paint(f"{condition.code}  {condition.name}", "bold"))
    for line in condition.doc.splitlines():
        print(paint(line[3:], "bold", "cyan") if line.startswith("## ") else line)
    return 0


def _find(wanted: str) -> Condition:
    conditions = all_conditions()
    for condition in conditions:
        if wanted.lower() in (condition.code.lower(), condition.name, condition.cause, condition.root):
            return condition
    import difflib

    names = [word for c in conditions for word in (c.code, c.name, c.cause or "", c.root or "") if word]
    near = difflib.get_close_matches(wanted, names, n=3)
    hint = f"near it: {', '.join(near)}" if near else "`keepfit rules` lists all"
    raise UserError(f"no condition is called {wanted!r}; {hint}")
