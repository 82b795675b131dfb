"""Permission denied.

## What happened
A file, directory or device may not be used by this user, and the exception was not handled.

## How keepfit knows
*certain*: the exception that ended it is a `PermissionError` (EACCES, EPERM). *likely*: read from
the last traceback.

## What to do
The message names the path. In containers the user id inside often differs from the owner outside.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import at, by_exit, error_evidence, error_strength, failed, is_a


def autopsy(attempt: Attempt) -> Diagnosis | None:
    error = attempt.error
    if error is None or not failed(attempt) or not is_a(error, "PermissionError", "PermissionDeniedError"):
        return None
    summary = "permission denied: " + (error.message.splitlines() or [""])[0][:120]
    return Diagnosis(error_strength(error), summary, (error_evidence(error), by_exit(attempt)), at(error.frame))


CONDITION = Condition(
    code="KF404",
    name="permission-denied",
    title="permission denied",
    cause="permission",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(Remedy("look at owner and mode of the path", "ls -ld PATH; id"),),
)
