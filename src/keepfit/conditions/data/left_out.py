"""Files of the data cannot be read, and are left out of the training.

## What happened
`--on-bad-sample skip` was asked for: samples that the pipeline fails on are passed over, and the epochs are shorter.

## How keepfit knows
Beside the training, every file was read once more by the pipeline's own function. That is done where the pipeline
maps names that it holds in memory by a function without a state, for 20 seconds at most; elsewhere TensorFlow logs a
line for each sample.

## What to do
Mend or remove the files. `keepfit check FOLDER` finds all of them and says what is wrong.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("what") != "left-out" or report.get("kind") != "input":
        return None
    files, count = list(report.get("files") or []), int(report["count"])
    names = ", ".join(map(str, files[:3])) + (", …" if count > 3 else "")
    seen = "" if report["checked"] == report["of"] else f" of the first {report['checked']}"
    return f"{count}{seen} of {report['of']} files cannot be read and are left out ({names})"


CONDITION = Condition(
    code="KF312",
    name="files-left-out",
    title="files of the data cannot be read, and are left out",
    severity="warning",
    watch=watch,
    remedies=(Remedy("find out what is wrong with them", "keepfit check FOLDER"),),
)
