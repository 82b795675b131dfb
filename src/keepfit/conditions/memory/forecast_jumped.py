"""Another version of the framework needs another amount of memory for the same training.

## What happened
The same model with the same batch was planned before, with other versions of TensorFlow or Keras, and the forecasts are
further apart than their intervals.

## How keepfit knows
Plans are remembered by model, shapes and versions; the newest one of the same training is compared.

## What to do
A batch that fitted before the upgrade may not fit after it: `keepfit plan` says what does.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from ..reading import size


def preflight(report: Report) -> str | None:
    if report.get("kind") != "plan" or not report.get("before"):
        return None
    before, peak = int(report["before"]), int(report["peak"])
    if int(report["low"]) <= before <= int(report["high"]) or report["versions_before"] == report["versions"]:
        return None
    old, new = (" and ".join(map(str, report[name])) for name in ("versions_before", "versions"))
    return f"with {new} it needs about {size(peak)}; with {old} it was {size(before)}"


CONDITION = Condition(
    code="KF130",
    name="forecast-jumped",
    title="another version of the framework needs another amount of memory",
    severity="warning",
    preflight=preflight,
    remedies=(Remedy("look for the largest batch again", "keepfit plan -- CMD …"),),
)
