"""Legacy Keras (tf_keras): recorded and guarded, but its batch is not split.

## What happened
The script trains with `tf_keras` (or `TF_USE_LEGACY_KERAS=1`, as TensorFlow models of Hugging Face
need). Its steps are recorded and the danger line stands, but splitting is built for Keras 3.

## How keepfit knows
The framework that was imported says so.

## What to do
Move to Keras 3 where the model allows it; else use a smaller batch with
`keepfit.accumulate` in a step of your own, which works with any TensorFlow model.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "legacy":
        return None
    return f"tf_keras {report.get('version')}: steps are recorded and guarded, but a batch is not split (Keras 3 only)"


CONDITION = Condition(
    code="KF126",
    name="legacy-keras",
    title="legacy Keras: its batches are not split",
    severity="note",
    watch=watch,
    remedies=(Remedy("accumulate in a step of your own", "keepfit.accumulate(loss_of, variables, x, y)"),),
)
