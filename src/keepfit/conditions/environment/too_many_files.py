"""Too many open files.

## What happened
The process (or the system) has no descriptors left. Typical: files opened per sample and never
closed, many data workers that pass tensors through descriptors, thousands of memory-mapped shards.

## How keepfit knows
*certain*: the exception carries EMFILE or ENFILE. *likely*: its last lines say so. The number of
open files of the tree is sampled and shown against the limit.

## What to do
Close what is opened (`with open(…)`), or raise the soft limit: `ulimit -n 65536`.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import at, by_exit, error_evidence, error_strength, failed, log_evidence, said

EMFILE, ENFILE = 24, 23
NEAR = 0.8  # of the limit
_TEXT = re.compile(r"Too many open files|\[Errno 2[34]\]|received 0 items of ancdata")


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    error, line = attempt.error, said(attempt, _TEXT)
    if not (error is not None and error.errno in (EMFILE, ENFILE)) and line is None:
        return None
    evidence = [error_evidence(error) if error else log_evidence(line or "")]
    most = max((sample.open_files for sample in attempt.samples), default=0)
    limit = attempt.open_files_limit
    if limit and most >= NEAR * limit:  # else it had lowered its limit itself, or opened them between two looks
        words = f"{most} files were seen open; the limit of one process is {limit}"
        evidence.append(Evidence("samples", words, "possible"))
    confidence = error_strength(error) if error else "likely"
    where = at(error.frame) if error else {}
    return Diagnosis(confidence, "too many open files", (*evidence, by_exit(attempt)), where)


CONDITION = Condition(
    code="KF402",
    name="too-many-open-files",
    title="too many open files",
    cause="too_many_files",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(
        Remedy("raise the soft limit", "ulimit -n 65536"),
        Remedy("close what is opened", "with open(…) as f: …"),
    ),
)
