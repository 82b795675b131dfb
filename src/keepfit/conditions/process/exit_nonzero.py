"""It ended by itself with an exit status, and nothing more is known.

## What happened
The program chose to end with a status other than 0: `sys.exit(3)`, `os._exit(3)`, a failed command
in a shell script. No exception was left behind and no known message is in its last output.

## How keepfit knows
*certain* about the status; the reason is the program's own.

## What to do
Its last lines are in the record.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import BARE, Condition, Diagnosis
from ..reading import by_exit, last_lines, log_evidence, signal_name


def autopsy(attempt: Attempt) -> Diagnosis | None:
    status = attempt.exit.status if attempt.exit else None
    if not status:
        return None
    lines = last_lines(attempt)
    evidence = (by_exit(attempt), *([log_evidence(lines[-1][:200], "possible")] if lines else []))
    hint = f" (what a shell reports for {signal_name(status - 128)})" if 128 < status < 160 else ""
    return Diagnosis("certain", f"it ended by itself with exit status {status}{hint}", evidence)


CONDITION = Condition(
    code="KF511",
    name="exit-status",
    title="it ended by itself with an exit status",
    cause="exit_nonzero",
    specificity=BARE,
    autopsy=autopsy,
    remedies=(Remedy("read its last lines", "they are in the run's directory: stdout, stderr"),),
)
