"""The model itself is too large: not even one row at a time fits.

## What happened
The batch was cut down to micro-batches of a single row, and the run still stood at its limit. What is
left does not depend on the batch: the weights, their gradients, the sum of the gradients, and what the
optimizer keeps for each weight (Adam: two more copies).

## How keepfit knows
The agent ran with micro-batches of one row, in one of the first steps, when the danger line was reached, or
measured one row and it did not fit. A run that trained at one row and died later is not called this.

## What to do
The options below are priced by the model's own bytes: mixed precision (activations only), recomputing
blocks, freezing part of the model, an optimizer that keeps less (SGD nothing, Adafactor next to nothing), LoRA
(optimizer state only for small factors), a smaller or distilled model, or more memory.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence
from ...plan.options import lighter
from ..catalogue import OWN_ACT, Condition, Diagnosis
from ..reading import by_exit, failed, size
from .growth import FEW_STEPS

_ONE_ROW = 1


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not attempt.splittings or not failed(attempt) or attempt.danger is None:
        return None
    last = attempt.splittings[-1]
    if last.step != "train" or last.rows != _ONE_ROW or last.batch < 2:
        return None
    beat = attempt.last_beat
    if beat is not None and beat.steps >= FEW_STEPS:
        return None  # it did fit, for a while: what came later is something else's doing
    weights, state = int(last.model.get("weights") or 0), int(last.model.get("optimizer") or 0)
    sums = 2 * int(last.model.get("trainable") or 0)  # gradients, and the sum of them
    needed = max(int(last.base + last.slope), last.in_use + sums, attempt.danger.use_bytes)
    over = needed - last.limit
    more = f"; it needs at least {size(over)} more" if over > 0 else ""
    summary = f"the model is too large for {size(last.limit)}: one row at a time needs more than that"
    said = f"at micro-batch 1: use {size(attempt.danger.use_bytes)} of {size(last.limit)}{more}"
    parts = f"weights {size(weights)}, optimizer state {size(state)}, gradients and their sum {size(sums)}"
    evidence = (Evidence("agent", said), Evidence("agent", parts), by_exit(attempt))
    return Diagnosis("certain", summary, evidence, remedies=lighter(last))


CONDITION = Condition(
    code="KF100",
    name="model-too-large",
    title="the model itself is too large: not even one row at a time fits",
    cause="model_too_large",
    specificity=OWN_ACT,
    autopsy=autopsy,
    remedies=lighter(None),
)
