"""The training runs on several devices at once, so its numbers are not looked at.

## What happened
The model belongs to a `tf.distribute` strategy with several replicas. Its gradients are summed over the devices, and
what keepfit puts around an update on one device may not be put around that. So the gate stands aside: a NaN reaches
the weights as it would without keepfit. The batch is not split and no state is saved either; memory, output and the
end are recorded as always.

## How keepfit knows
*certain*: the model's strategy says how many replicas it has.

## What to do
Nothing for the training itself. To end it at a NaN, add `keras.callbacks.TerminateOnNaN()`.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report


def watch(report: Report) -> str | None:
    if report.get("kind") != "numbers-aside":
        return None
    return f"the training runs on {report.get('devices')} devices at once: keepfit does not look at its numbers there"


CONDITION = Condition(
    code="KF218",
    name="several-devices",
    title="the training runs on several devices at once, and its numbers are not looked at",
    severity="note",
    watch=watch,
    remedies=(Remedy("end it at a NaN by a callback", "keras.callbacks.TerminateOnNaN()"),),
)
