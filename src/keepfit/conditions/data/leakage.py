"""The same rows in two files: training and validation share samples.

## What happened
What the model is judged by, it was trained on. The validation is better than the truth.

## How keepfit knows
The hashes of all rows of both files were compared.

## What to do
Split before augmenting or oversampling, and by whatever samples belong together (a patient, a document).
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file


def preflight(report: Report) -> str | None:
    if not of_file(report, "leak"):
        return None
    shown = ", ".join(f"{row} is {other}" for row, other in report["shown"])
    return f"{report['count']} of {report['rows']} rows are in {report['other']} too (row {shown} there)"


CONDITION = Condition(
    code="KF325",
    name="files-share-rows",
    title="two files share rows",
    severity="error",
    preflight=preflight,
    remedies=(Remedy("split before anything is copied", "by whatever belongs together"),),
)
