"""What the signal conditions share: a death by a given signal, of the command or passed on by a shell."""

from __future__ import annotations

from ...facts import Attempt, Evidence
from ..catalogue import Diagnosis
from ..reading import at, by_exit, died_by, own_frame_of, passed_on, passed_on_strength


def ended_by(attempt: Attempt, number: int, summary: str) -> Diagnosis | None:
    """Certain when the kernel says so of our own process; likely when a shell passed the status on."""
    if died_by(attempt, number):
        evidence = [by_exit(attempt)]
        frame = own_frame_of(attempt.fatal_stacks)
        if frame is not None:
            words = f"the Python stack at that moment: {frame.file}, line {frame.line}, in {frame.function}"
            evidence.append(Evidence("agent", words))
        return Diagnosis("certain", summary, tuple(evidence), at(frame))
    if passed_on(attempt, number):
        return Diagnosis(
            passed_on_strength(attempt), f"a child {summary}", (by_exit(attempt),), {"process": "child", "pid": None}
        )
    return None
