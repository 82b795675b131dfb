"""NaN or Inf in the arrays given to `fit`.

## What happened
Before the first step, features or labels hold values that are no numbers. Steps that meet them will not be applied.

## How keepfit knows
The arrays are looked through before the first step, for at most a third of a second.

## What to do
`keepfit check FILE --fix median --out CLEANED`, or drop the rows.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("what") != "nonfinite" or report.get("kind") != "input":
        return None
    entry = list(report.get("entry") or [])
    feature = f", feature {entry[0] if len(entry) == 1 else tuple(entry)}" if entry else ""
    bad, looked, rows = int(report["bad"]), int(report["looked"]), int(report["rows"])
    seen = "" if looked == rows else f" of the {looked} looked at"
    return (
        f"{report['name']} holds {report['value']} in {bad} sample{'s' if bad > 1 else ''}{seen} "
        f"(first: sample {report['first']}{feature})"
    )


CONDITION = Condition(
    code="KF310",
    name="data-not-finite",
    title="the data holds NaN or Inf",
    severity="warning",
    watch=watch,
    remedies=(Remedy("clean the data", "keepfit check FILE --fix median --out CLEANED"),),
)
