"""An allocation failed inside the process: `MemoryError`, `ResourceExhaustedError`, `std::bad_alloc`.

## What happened
The process asked for memory and was refused, so it was told (unlike a kill by the kernel). Either
one request was absurdly large (a tensor with a wrong shape), or an rlimit (`ulimit -v`, `ulimit
-d`) stands below the need, or the address space is full.

On a CPU this is no safe signal: of 16 measured failures 6 ended as a segfault or abort, and after
none of the caught ones did a smaller batch work in the same process. So printing the error and
exiting with 1, as many scripts do, hides a memory cause behind an exit status: keepfit reads the
text.

## How keepfit knows
*certain*: the exception that ended the interpreter was one of these. *likely*: the last lines of
output say so.

## What to do
Look at the shape in the message first. Then need less: a smaller micro-batch, a smaller tensor.
"""

from __future__ import annotations

import re

from ...facts import Attempt, Evidence, Remedy
from ..catalogue import SPECIFIC, Condition, Diagnosis
from ..reading import CRASHES, at, by_exit, error_evidence, error_strength, failed, is_a, log_evidence, said, size

_TEXT = re.compile(
    r"OOM when allocating tensor|ResourceExhaustedError|RESOURCE_EXHAUSTED|std::bad_alloc|\bMemoryError\b|"
    r"Unable to allocate [\d.]+ \w?i?B|Cannot allocate memory|could not create a memory object|"
    r"DefaultCPUAllocator: (?:can't|not enough) allocate"
)
GPU = re.compile(r"GPU_\d+_bfc|CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|device:GPU:\d")
_REFUSED = 12  # ENOMEM


def autopsy(attempt: Attempt) -> Diagnosis | None:
    if not failed(attempt):
        return None
    error = attempt.error
    named = is_a(error, "MemoryError", "ResourceExhaustedError", "_ArrayMemoryError") or (
        error is not None and error.errno == _REFUSED
    )
    line = said(attempt, _TEXT, CRASHES)
    if not named and line is None:
        return None
    if GPU.search(attempt.output) and (error is None or GPU.search(error.message)):
        return None  # a device's memory: another condition
    evidence = [error_evidence(error)] if named and error else [log_evidence(line or "")]
    evidence.append(by_exit(attempt))
    if attempt.limit is not None and attempt.limit.kind == "rlimit":
        evidence.append(Evidence("samples", f"{attempt.limit.source} is {size(attempt.limit.bytes)}", "likely"))
    confidence = error_strength(error) if named else "likely"
    where = at(error.frame) if named and error else {}
    return Diagnosis(confidence, "an allocation failed: the process was refused memory", tuple(evidence), where)


CONDITION = Condition(
    code="KF104",
    name="allocation-failed",
    title="an allocation failed inside the process",
    cause="allocation_failed",
    specificity=SPECIFIC,
    autopsy=autopsy,
    remedies=(
        Remedy(
            "check the shape in the message",
            "a wrong axis or a one-hot of a large vocabulary asks for terabytes",
        ),
        Remedy("look for a limit of the shell", "ulimit -a"),
    ),
)
