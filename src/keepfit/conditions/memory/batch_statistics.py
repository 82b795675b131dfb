"""BatchNormalization sees micro-batches: its statistics are those of the parts.

## What happened
A batch that does not fit is run in parts (KF120), and BatchNormalization normalises each part by the
part's own mean and variance. That is the one thing a split cannot do exactly: the statistics of the
whole batch are only known when all of it has been computed.

## How keepfit knows
The model has trainable BatchNormalization layers and its batch is split.

## What to do
Usually nothing: parts of 16 rows and more train alike, and many find it regularises ("ghost batch
normalisation"). The *moving* statistics used in inference are updated once a batch, from the parts'
means and variances and the spread between them, not once a part. Where it matters, give the run more
memory, or use GroupNormalization or LayerNormalization, which split exactly.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "batch-statistics":
        return None
    layers = report["layers"]
    many = f"{layers[0]} and {len(layers) - 1} more" if len(layers) > 1 else str(layers[0])
    return (
        f"not exact: BatchNormalization ({many}) normalises each micro-batch by its own statistics; "
        "the moving statistics are updated once a batch"
    )


CONDITION = Condition(
    code="KF121",
    name="batch-statistics-of-parts",
    title="BatchNormalization normalises micro-batches by their own statistics",
    severity="warning",
    watch=watch,
    remedies=(Remedy("use a normalisation that splits exactly", "keras.layers.GroupNormalization(…)"),),
)
