"""Native code gave up: SIGABRT.

## What happened
A library found itself in a state it cannot go on from and called `abort()`: a failed internal check
(`Check failed:`), a C++ exception nobody caught (`terminate called after throwing`), a heap found
corrupt (`double free`).

## How keepfit knows
*certain*: it ended by SIGABRT. What it printed last is shown.

## What to do
The library's last line names the check. A `std::bad_alloc` in it is a memory cause and is called
that.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...facts import Attempt, Remedy
from ..catalogue import SIGNAL, Condition, Diagnosis
from ..reading import last_lines, log_evidence
from .signals import ended_by

SIGABRT = 6
_LAST_WORDS = re.compile(
    r"Check failed|terminate called|double free|corrupted|Assertion|Fatal|what\(\)|abort", re.IGNORECASE
)


def autopsy(attempt: Attempt) -> Diagnosis | None:
    found = ended_by(attempt, SIGABRT, "ended by SIGABRT: native code gave up")
    words = next((line for line in reversed(last_lines(attempt)) if _LAST_WORDS.search(line)), None)
    if found is None or words is None:
        return found
    return replace(found, evidence=(*found.evidence, log_evidence(words[:200])))


CONDITION = Condition(
    code="KF502",
    name="abort",
    title="native code gave up (abort)",
    cause="abort",
    specificity=SIGNAL,
    autopsy=autopsy,
    remedies=(Remedy("read the library's last line", "it names the check that failed"),),
)
