"""How many rows a trial may have, to end in the time there is: pure functions from steps that were timed."""

from __future__ import annotations

from collections.abc import Sequence

from .micro_batch import Trial

# A trial takes as long as so many of its later steps: it has three, and its first one, in which kernels are chosen and
# memory is touched for the first time, took up to four times as long as the others (an EfficientNetB0 on two cores).
STEPS = 6


def affordable(timed: Sequence[Trial], seconds: float, wished: int) -> int:
    """As many rows as were wished, or as many as are tried within the seconds; 0: not even one.

    By the largest trial that was timed: few rows take more time each than many. Nothing is known before the first.
    """
    if not timed:
        return wished
    largest = max(timed, key=lambda trial: trial.rows)
    each = max(largest.seconds, 1e-9) / largest.rows
    return max(0, int(min(wished, seconds / (STEPS * each))))
