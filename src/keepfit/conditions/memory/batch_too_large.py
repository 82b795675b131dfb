"""The batch is too large for the memory there is.

## What happened
Weights, optimizer and data were in place, and the first steps then asked for more than was left:
the activations of one batch, and their gradients. Their size grows with the batch almost linearly.

## How keepfit knows
*likely*: it died of memory in one of the first steps of the first epoch, and most of the growth
came after the training had begun. Later deaths have other reasons (a leak, a longer sequence,
validation).

## What to do
With `fit`, `keepfit run` splits the batch by itself (unless `--guard` leaves memory out). In a loop of
your own, three lines change: the tape becomes a function that returns the loss, and
`keepfit.accumulate` computes loss and gradients in parts, equal to the whole batch. `keepfit why` shows
the three on your own lines. A smaller `batch_size` also fits, but trains differently.
"""

from __future__ import annotations

import os
import re

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import Condition
from ..reading import size
from .growth import CLIMB_SHARE, FEW_STEPS, MEMORY_CAUSES, before_training


def because(attempt: Attempt, cause: str) -> Evidence | None:
    beat = attempt.last_beat
    if cause not in MEMORY_CAUSES or beat is None or beat.phase not in ("train", "trace"):
        return None
    if beat.epoch > 0 or beat.steps >= FEW_STEPS or attempt.limit is None:
        return None
    base = before_training(attempt)
    grown = attempt.peak - base
    if grown < CLIMB_SHARE * max(1, attempt.limit.bytes - base):
        return None
    batch = f"batch {beat.batch_size}" if beat.batch_size else "its batch"
    words = f"step {max(0, beat.step) + 1} took more than {size(grown)} at {batch}; {size(base)} were in use before it"
    return Evidence("samples", words, "likely")


def advice(attempt: Attempt) -> tuple[Remedy, ...]:
    """The three changed lines, on the user's own."""
    loop = attempt.loop
    if loop is None or not (loop.tape_line and loop.loss_line and loop.gradient_line):
        return ()
    batch = _batch_names(loop.loop_code)
    found = _GRADIENT.search(loop.gradient_code)
    gradients = (found["name"] if found else None) or "gradients"
    variables = found["variables"].strip() if found else "model.trainable_variables"
    loss, _, value = loop.loss_code.partition("=")
    name = os.path.basename(loop.file)
    lines = (
        (loop.tape_line, f"def loss_of({batch}):"),
        (loop.loss_line, f"    return {value.strip()}"),
        (loop.gradient_line, f"{loss.strip()}, {gradients} = keepfit.accumulate(loss_of, {variables}, {batch})"),
    )
    how = "".join(f"\n{name}:{number}: {code}" for number, code in lines)
    return (Remedy("compute it in parts (import keepfit, and three changed lines)", how),)


_GRADIENT = re.compile(r"(?:(?P<name>\w+)\s*=\s*)?\w+\.gradient\(\s*[^,]+,\s*(?P<variables>[^,()]+)")
_FOR = re.compile(r"for\s+(?P<names>.+?)\s+in\s")


def _batch_names(loop_code: str) -> str:
    """`for i, (x, y) in enumerate(ds):` -> `x, y`."""
    found = _FOR.search(loop_code)
    names = found["names"] if found else "x, y"
    inner = re.search(r"\(([^()]*)\)", names)
    return (inner[1] if inner else names).strip().rstrip(",")


CONDITION = Condition(
    code="KF112",
    name="batch-too-large",
    title="the batch is too large for this memory",
    root="batch_too_large",
    because=because,
    advice=advice,
    remedies=(Remedy("let keepfit split it (--guard all), or use a smaller batch", "model.fit(…, batch_size=…)"),),
)
