"""The long story of one condition: what happened, how keepfit knows, what to do."""

from __future__ import annotations

import argparse
import sys

from ..conditions.catalogue import Condition, all_conditions
from ..report import style, tables
from . import UserError
from .selection import add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    words = "a code (KF101, 101), a name, a cause (cgroup_oom) or a root; of several causes: oom, nan, data, …"
    parser.add_argument("code", metavar="CODE", help=words)
    add_json(parser)


# What people call a whole family of causes.
GROUPS = {
    "oom": ("memory", "gpu"),
    "out-of-memory": ("memory", "gpu"),
    "memory": ("memory", "gpu"),
    "gpu": ("gpu",),
    "nan": ("numerics",),
    "numerics": ("numerics",),
    "data": ("data",),
    "environment": ("environment",),
    "process": ("process",),
    "checkpoint": ("checkpoint",),
}


def main(args: argparse.Namespace) -> int:
    if args.code.lower() in GROUPS:
        return _group(args.code.lower(), args.json)
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


def _group(wanted: str, as_json: bool) -> int:
    """All of a kind: first what runs die of, then what brings it about or is told while they run."""
    found = [condition for condition in all_conditions() if condition.family in GROUPS[wanted]]
    found.sort(key=lambda condition: (condition.cause is None, condition.code))
    if as_json:
        known = [{"code": c.code, "cause": c.cause, "root": c.root, "title": c.title} for c in found]
        print_json({"schema": "keepfit.rules/1", "rules": known})
        return 0
    rows = [[c.code, c.cause or (f"root: {c.root}" if c.root else "-"), c.title] for c in found]
    print(tables.render(("CODE", "CAUSE", "WHAT"), rows, style.width(sys.stdout), style.wanted(sys.stdout)))
    print("\nthe long story of one: keepfit explain CODE")
    return 0


def _find(wanted: str) -> Condition:
    conditions = all_conditions()
    code = f"kf{wanted}" if wanted.isascii() and wanted.isdecimal() else wanted.lower()
    for condition in conditions:
        if code in (condition.code.lower(), condition.name, condition.cause, condition.root):
            return condition
    import difflib

    names = [word for c in conditions for word in (c.code, c.name, c.cause or "", c.root or "") if word]
    near = difflib.get_close_matches(wanted, names, n=3)
    hint = f"near it: {', '.join(near)}" if near else "`keepfit rules` lists all"
    raise UserError(f"no condition is called {wanted!r}; {hint}")
