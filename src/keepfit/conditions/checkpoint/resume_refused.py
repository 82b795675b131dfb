"""A saved state was not gone on from: the model or the data is not the one it was saved of.

## What happened
The script ran up to its `fit`, and there the model's layers or shapes, the source of the batches or the contents
of the data were others than those in the saved state. Going on would have mixed two trainings. Most often a split
into training and validation came out differently because it has no seed.

## How keepfit knows
Shapes and types of all weights, the classes of all layers and of the optimizer, and a checksum of samples of the
data are saved with every state and compared.

## What to do
Undo the change, or seed the split. If you know better: `--force-resume`. After a restart of keepfit's own, the
training begins anew instead.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "checkpoint-refused":
        return None
    then = "nothing was trained (--force-resume overrides)" if report.get("asked") else "the training begins anew"
    return f"cannot resume fit {report['fit']}: {report['why']}; {then}"


CONDITION = Condition(
    code="KF704",
    name="resume-refused",
    title="model or data are not those of the saved state",
    severity="error",
    watch=watch,
    remedies=(
        Remedy(
            "seed what is random, or undo the change",
            "the split and the model must come out the same; --force-resume overrides",
        ),
    ),
)
