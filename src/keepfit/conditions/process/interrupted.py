"""Interrupted: Ctrl-C.

## What happened
SIGINT, from the keyboard or sent by a program, ended it (in Python: `KeyboardInterrupt`); or Ctrl-\\ (SIGQUIT), or the
terminal it ran in was closed (SIGHUP).

## How keepfit knows
*certain*: it ended by SIGINT, or the agent saw the `KeyboardInterrupt`. *likely*: status 130, or
the traceback says so.

## What to do
Nothing, if it was you.
"""

from __future__ import annotations

from ...facts import Attempt, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import at, by_exit, died_by, error_evidence, error_strength, failed, is_a, passed_on, passed_on_strength

SIGINT = 2
_FROM_TERMINAL = {
    1: "ended by SIGHUP: its terminal or session was closed (nohup or tmux keep a run alive)",
    3: "ended by SIGQUIT (Ctrl-\\)",
}


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    for number, summary in _FROM_TERMINAL.items():
        if died_by(attempt, number):
            return Diagnosis("certain", summary, (by_exit(attempt),))
    error = attempt.error
    seen = is_a(error, "KeyboardInterrupt")
    if not (died_by(attempt, SIGINT) or passed_on(attempt, SIGINT) or seen):
        return None
    sure = "certain" if died_by(attempt, SIGINT) else error_strength(error) if seen else passed_on_strength(attempt)
    evidence = [by_exit(attempt), *([error_evidence(error)] if seen and error else [])]
    where = at(error.frame) if seen and error else {}
    return Diagnosis(sure, "interrupted (Ctrl-C or SIGINT)", tuple(evidence), where)


CONDITION = Condition(
    code="KF509",
    name="interrupted",
    title="interrupted (Ctrl-C)",
    cause="interrupted",
    specificity=SPECIFIC,
    severity="note",
    autopsy=autopsy,
    remedies=(Remedy("nothing to mend", "it was asked to stop"),),
)
