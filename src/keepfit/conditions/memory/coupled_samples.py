"""The samples of a batch depend on each other: the batch cannot be split.

## What happened
The batch does not fit, but its loss over the whole batch is neither the sum nor the mean of the loss
over its parts (contrastive losses, Dice over the whole batch, in-batch negatives), or the model's
prediction for one sample depends on the others. Splitting would train something else, so it is not
done; the danger line stands guard alone.

## How keepfit knows
A few rows of the first batch went through the model whole and in two parts, and the numbers differ.
Nothing of the model was changed by that.

## What to do
A smaller batch changes the training here, too. Mixed precision or a smaller model need less memory
at the same batch; for contrastive losses a memory bank or gradient caching splits by hand.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "coupled":
        return None
    return f"the batch of {report['rows']} is not split: {report['why']}"


CONDITION = Condition(
    code="KF122",
    name="samples-coupled",
    title="the samples of a batch depend on each other, so it is not split",
    severity="warning",
    watch=watch,
    remedies=(Remedy("use mixed precision", 'keras.mixed_precision.set_global_policy("mixed_bfloat16")'),),
)
