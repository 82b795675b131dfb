"""`/dev/shm` is full.

## What happened
Shared memory between processes (data workers, `multiprocessing.shared_memory`, NCCL) lives in
`/dev/shm`, a file system of its own. Containers often get 64 MiB of it. When it is full, writing
into a mapping there raises SIGBUS, which ends the process without a message; or a call fails with
"No space left on device" on a name that is no file of yours (`/torch_…`, `/psm_…`).

## How keepfit knows
*certain*: the exception names `/dev/shm`. *likely*: SIGBUS, or "No space left", while `/dev/shm`
had no space left.

## What to do
`docker run --shm-size=8g` (Kubernetes: an `emptyDir` of `medium: Memory` at `/dev/shm`), fewer
workers, or batches passed through pipes instead.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Disk, Evidence, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import CRASHES, at, by_exit, died_by, error_evidence, failed, log_evidence, passed_on, said, size

SIGBUS = 7
FULL_SHARE = 0.02
_NAMES = re.compile(
    r"/dev/shm|</?torch_\w+>|/psm_\w+|shared memory \(shm\)|unable to (?:open|write to) shared memory",
    re.IGNORECASE,
)
NO_SPACE = re.compile(r"No space left on device|ENOSPC|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]")
_BUS = re.compile(r"\bBus error\b|insufficient shared memory", re.IGNORECASE)


def is_full(place: Disk | None) -> bool:
    return place is not None and place.free <= max(1 << 20, place.total * FULL_SHARE)


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    shm = next((place for place in attempt.disks if place.role == "shm"), None)
    full = is_full(shm)
    space = Evidence("disk", f"/dev/shm: {size(shm.free)} free of {size(shm.total)}", "likely") if shm else None
    error, line = attempt.error, said(attempt, NO_SPACE, CRASHES)
    if line is not None and _NAMES.search(line):
        evidence = [error_evidence(error) if error else log_evidence(line), *([space] if space else [])]
        sure = "certain" if error is not None and error.told_by == "agent" else "likely"
        return Diagnosis(sure, "/dev/shm is full", tuple(evidence), at(error.frame) if error else {})
    worker = said(attempt, _BUS, CRASHES)
    if full and (died_by(attempt, SIGBUS) or passed_on(attempt, SIGBUS) or worker):
        evidence = [
            by_exit(attempt),
            *([log_evidence(worker)] if worker else []),
            *([space] if space else []),
        ]
        return Diagnosis("likely", "/dev/shm is full: writing there raised SIGBUS", tuple(evidence))
    return None


CONDITION = Condition(
    code="KF105",
    name="shared-memory-full",
    title="/dev/shm is full",
    cause="shm_full",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(Remedy("give the container more shared memory", "docker run --shm-size=8g"),),
)
