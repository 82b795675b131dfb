"""The forecast made before the first step was wrong by more than its interval.

## What happened
Before a training begins, what its step will need is counted in the traced graph. The peak that came was outside of the
interval that the count is trusted to.

## How keepfit knows
Forecast and peak are both in the record: `keepfit why RUN` shows them.

## What to do
`keepfit plan -- CMD` measures two small batches, which is closer. A peak far above the forecast is often not the step:
validation, a callback, data that the script holds on to, or freed blocks that malloc keeps, in more of its arenas with
every step: with a single arena and a chosen threshold it keeps few. (On x86-64 TensorFlow keeps large ones in a pool of
its own, and that changes little.)
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from ..reading import size


def watch(report: Report) -> str | None:
    if report.get("kind") != "forecast":
        return None
    peak, low, high = (int(report[name]) for name in ("peak", "low", "high"))
    if low <= peak <= high:
        return None
    return f"the forecast was {size(int(report['forecast']))} ({size(low)} to {size(high)}), the peak is {size(peak)}"


CONDITION = Condition(
    code="KF129",
    name="forecast-missed",
    title="the forecast was wrong by more than its interval",
    severity="note",
    watch=watch,
    remedies=(
        Remedy("measure it", "keepfit plan -- CMD …"),
        Remedy("let malloc keep less of what is freed", "export MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=1048576"),
    ),
)
