"""A file or record of the data is damaged.

## What happened
An image that cannot be decoded, a TFRecord whose checksum is wrong, a file that ends too early: the pipeline raised
an error in the middle of the training.

## How keepfit knows
The exception that ended it says so. The file's name is told where the pipeline carries it.

## What to do
`keepfit check PATH` finds all of them at once. `--on-bad-sample skip` leaves out what cannot be read.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Remedy
from ..catalogue import Condition, Diagnosis, Report
from .files import of_file
from .text import by_error

_SAID = re.compile(
    r"corrupted record|truncated record|Invalid PNG|jpeg::Uncompress failed|Invalid JPEG|Unknown image file format|"
    r"Expected image \(JPEG|Input is empty|not a valid JPEG|image file is truncated|cannot identify image file|"
    r"Trying to decode .{1,20} format using a wrong op|\bCRC\b.{0,40}(?:mismatch|failed|error)|not a zip file|"
    r"Error -\d+ while decompressing|"
    r"Unable to (?:synchronously )?open (?:file|object)|Could not parse example input|Couldn't deserialize"
)
_TYPES = ("DataLossError", "UnidentifiedImageError", "BadZipFile", "BadGzipFile", "EOFError")


def preflight(report: Report) -> str | None:
    return str(report["why"]) if of_file(report, "damaged") else None


def autopsy(attempt: Attempt) -> Diagnosis | None:
    told = next((r for r in reversed(attempt.reports) if r.get("what") == "corrupt"), None)
    summary = "a file or record of the data is damaged"
    if told is not None and told.get("file"):
        summary = f"{told['file']} is damaged"
    return by_error(attempt, _SAID, summary, _TYPES)


CONDITION = Condition(
    code="KF305",
    name="data-damaged",
    title="a file or record of the data is damaged",
    cause="corrupt_data",
    severity="error",
    autopsy=autopsy,
    preflight=preflight,
    remedies=(
        Remedy("leave out what cannot be read", "keepfit run --on-bad-sample skip -- …"),
        Remedy("find all of them", "keepfit check PATH"),
    ),
)
