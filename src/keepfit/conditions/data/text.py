"""Errors of the data, by what the exception that ended it says."""

from __future__ import annotations

import re

from ...facts import Attempt
from ..catalogue import Diagnosis
from ..reading import at, by_exit, error_evidence, error_strength, failed, is_a


def by_error(attempt: Attempt, pattern: re.Pattern[str], summary: str, types: tuple[str, ...] = ()) -> Diagnosis | None:
    """The condition is the cause if the exception that ended it is one of these types, or its message says so."""
    error = attempt.error
    if error is None or not failed(attempt):
        return None
    match = pattern.search(error.message)
    if match is None and not is_a(error, *types):
        return None
    said = next((line for line in error.message.splitlines() if match and match.group(0) in line), "")
    told = f"{summary}: {said.strip()[:140]}" if said else summary
    return Diagnosis(error_strength(error), told, (error_evidence(error), by_exit(attempt)), at(error.frame))
