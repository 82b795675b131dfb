"""An import failed: a package or a shared library is missing or does not fit.

## What happened
`ModuleNotFoundError`: the package is not installed in *this* interpreter's environment.
`ImportError: lib….so: cannot open shared object file`: a package is there, but a system library it
needs is not (cause `missing_library`).

## How keepfit knows
*certain*: the exception that ended it is an `ImportError`. *likely*: read from the last traceback.

## What to do
Check which interpreter ran (`python -c "import sys; print(sys.executable)"`) and install there.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import at, by_exit, error_evidence, error_strength, failed, is_a

_LIBRARY = re.compile(r"\.so[.\d]*: cannot open shared object file|version `[^']+' not found|undefined symbol")


def autopsy(attempt: Attempt) -> Diagnosis | None:
    error = attempt.error
    if error is None or not failed(attempt) or not is_a(error, "ImportError", "ModuleNotFoundError"):
        return None
    library = bool(_LIBRARY.search(error.message))
    first = (error.message.splitlines() or [""])[0][:120]
    return Diagnosis(
        error_strength(error),
        f"{'a shared library is missing' if library else 'an import failed'}: {first}",
        (error_evidence(error), by_exit(attempt)),
        at(error.frame),
        cause="missing_library" if library else None,
    )


CONDITION = Condition(
    code="KF406",
    name="import-failed",
    title="an import failed: a package or shared library is missing",
    cause="import_error",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(Remedy("install it into the interpreter that ran", "python -m pip install …, with that python"),),
)
