"""Terminated by SIGTERM.

## What happened
Somebody asked the process to end: a person (`kill`), a service manager, a shutdown, a scheduler
that did not say more.

## How keepfit knows
*certain*: it ended by SIGTERM. Where the signal came through keepfit, the kernel tells who sent it,
and that is shown.

## What to do
Look at the sender. If it was a scheduler, see its own log for the reason.
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import SIGNAL, Condition, Diagnosis
from ..reading import by_exit, died_by
from .scheduling import SIGTERM, ended_politely


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not ended_politely(attempt):
        return None
    notices = [notice for notice in attempt.notices if notice.signal == SIGTERM]
    evidence = [by_exit(attempt)]
    who = "sender unknown"
    if notices and notices[-1].sender:
        who = f"sent by {notices[-1].sender_name or 'a process that is gone'} (pid {notices[-1].sender})"
        evidence.append(Evidence("exit", f"SIGTERM to keepfit was {who}"))
    sure = "certain" if died_by(attempt, SIGTERM) else "likely"
    return Diagnosis(sure, f"terminated by SIGTERM, {who}", tuple(evidence))


CONDITION = Condition(
    code="KF507",
    name="terminated",
    title="terminated by SIGTERM",
    cause="terminated",
    specificity=SIGNAL,
    autopsy=autopsy,
    remedies=(Remedy("look at who sends it", "the scheduler's or service manager's log"),),
)
