"""A disk is full.

## What happened
A write failed with "No space left on device" (or a quota): a checkpoint, a cache file, a log, a
temporary file. The space that is missing is not always where you look: `/tmp`, the home directory's
quota, or inodes can be what ran out.

## How keepfit knows
*certain*: the exception that ended it carries ENOSPC or EDQUOT. *likely*: its last lines say so.
The free space of the working directory, the temp directory, `/dev/shm` and the runs directory at
the time of death is shown beside.

## What to do
Free space where it is named; write checkpoints elsewhere; keep fewer of them (`save_best_only`,
rotation).
"""

from __future__ import annotations

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..memory.shm_full import NO_SPACE, is_full
from ..reading import at, by_exit, error_evidence, error_strength, failed, log_evidence, said, size

ENOSPC, EDQUOT = 28, 122


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    error, line = attempt.error, said(attempt, NO_SPACE)
    named = error is not None and error.errno in (ENOSPC, EDQUOT)
    if not named and line is None:
        return None
    evidence: list[Evidence] = [error_evidence(error) if error else log_evidence(line or "")]
    evidence += [
        Evidence("disk", f"{place.path} ({place.role}): {size(place.free)} free of {size(place.total)}", "likely")
        for place in attempt.disks
        if is_full(place)
    ]
    confidence = error_strength(error) if error else "likely"
    where = at(error.frame) if error else {}
    return Diagnosis(confidence, "a disk is full: a write was refused", (*evidence, by_exit(attempt)), where)


CONDITION = Condition(
    code="KF401",
    name="disk-full",
    title="a disk is full",
    cause="disk_full",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(Remedy("find what fills it", "df -h . /tmp; df -i . ; du -xsh ./*"),),
)
