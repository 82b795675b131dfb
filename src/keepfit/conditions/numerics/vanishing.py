"""Gradients vanish on their way back: the first layers do not learn.

## What happened
For many layers the gradient is next to nothing compared with that of others: a deep chain of saturating activations,
a poor initialisation, a missing skip connection.

## How keepfit knows
The norm of each kernel's gradient, divided by the root of its size, looked at after 50 steps and at every doubling. A
third of the kernels or more had less than a hundred-millionth of the largest, three looks in a row.

## What to do
ReLU-like activations with He initialisation, normalisation, skip connections; for recurrent nets an LSTM or a GRU.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report

FAINT = 1e-8  # of the largest
SHARE = 1 / 3  # of the kernels
LOOKS = 3


def faint(report: Report) -> list[str]:
    """Kernels whose gradient is next to nothing."""
    sizes = {str(name): float(value) for name, value in dict(report.get("gradients") or {}).items()}
    return [name for name, value in sizes.items() if value < FAINT]


def watch(report: Report) -> str | None:
    if report.get("kind") != "health" or int(report.get("probes") or 0) < LOOKS:
        return None
    names, known = faint(report), len(report.get("gradients") or {})
    if known < 4 or len(names) < SHARE * known:
        return None
    return (
        f"gradients vanish: {len(names)} of {known} kernels get less than 1e-8 of the largest gradient, "
        f"{names[0]} first"
    )


CONDITION = Condition(
    code="KF212",
    name="gradients-vanish",
    title="gradients vanish on their way back",
    severity="warning",
    watch=watch,
    remedies=(Remedy("let them through", "ReLU and He initialisation, normalisation, skip connections"),),
)
