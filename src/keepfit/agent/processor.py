"""What this process computes on."""

from __future__ import annotations

import os
from collections.abc import Iterable


def processors() -> int:
    return len(os.sched_getaffinity(0))


def has_bfloat16() -> bool | None:
    """Whether the processor computes with it, or every operation casts to float32 and back; None: it does not tell."""
    try:
        with open("/proc/cpuinfo") as file:
            return names_bfloat16(file)
    except OSError:
        return None


def names_bfloat16(lines: Iterable[str]) -> bool | None:
    """By the words of the first processor: avx512_bf16 or amx_bf16 on x86, bf16 or svebf16 on ARM."""
    told = next((line for line in lines if line.lower().startswith(("flags", "features"))), None)
    return None if told is None else any("bf16" in word for word in told.lower().split())
