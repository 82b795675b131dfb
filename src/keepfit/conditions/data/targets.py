"""Targets that do not match the loss.

## What happened
One-hot rows given to a sparse loss, indices given to a categorical one, a loss that takes probabilities behind a
layer that gives logits, or the other way round. Some raise an error at once; others train, badly.

## How keepfit knows
The labels, the loss and its `from_logits`, and the activation of the last layer, looked at before the first step.

## What to do
As the message says. A cross-entropy with `from_logits=True` behind a layer without activation is the stable choice.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

_ENTROPIES = ("sparse_categorical_crossentropy", "categorical_crossentropy", "binary_crossentropy")


def watch(report: Report) -> str | None:
    if report.get("what") != "targets" or report.get("kind") != "input":
        return None
    loss, units, shape = str(report["loss"]), int(report["units"]), list(report.get("shape") or [])
    if loss == "sparse_categorical_crossentropy" and report.get("one_hot") and units > 1 and shape[-1:] == [units]:
        return f"the labels are one-hot rows of {units}, and {loss} takes indices: use categorical_crossentropy"
    plain = report.get("integer") and shape in ([], [1])
    if loss == "categorical_crossentropy" and plain and units > 1 and int(report.get("rank") or 2) == 2:
        return f"the labels are indices, and {loss} takes one-hot rows: use sparse_categorical_crossentropy"
    if loss not in _ENTROPIES:
        return None
    activation, logits = report.get("activation"), bool(report.get("logits"))
    if activation == "linear" and not logits:
        return f"{loss} takes probabilities, and the last layer has no activation: from_logits=True is missing"
    if activation in ("softmax", "sigmoid") and logits:
        return f"{loss} with from_logits=True behind a {activation}: it is applied twice"
    return None


CONDITION = Condition(
    code="KF306",
    name="targets-do-not-match-loss",
    title="targets do not match the loss",
    severity="warning",
    watch=watch,
    remedies=(Remedy("as the message says", "logits and from_logits=True are the stable choice"),),
)
