"""How memory grew before a death: the shapes that the roots are told apart by."""

from __future__ import annotations

from collections.abc import Sequence

from ...facts import Attempt, Sample

MEMORY_CAUSES = frozenset({"cgroup_oom", "host_oom", "memory_budget", "allocation_failed"})
CLIMB_SHARE = 0.25  # of the limit: growth below this did not fill it
FEW_STEPS = 3  # a batch that does not fit shows in the first steps
FLAT_SECONDS = 10.0
SPIKE_SECONDS = 3.0
SPIKE_SHARE = 0.30  # of the limit, within SPIKE_SECONDS, after FLAT_SECONDS of little growth
FLAT_SHARE = 0.05


def start_of(attempt: Attempt, time: float) -> int:
    """Use at a moment: of the last sample at or before it."""
    before = [sample.use for sample in attempt.samples if sample.time <= time]
    return before[-1] if before else (attempt.samples[0].use if attempt.samples else 0)


def before_training(attempt: Attempt) -> int:
    """Use when the training began: what weights, data and framework took."""
    began = next((beat.time for beat in attempt.beats if beat.phase in ("train", "trace")), None)
    return start_of(attempt, began) if began is not None else 0


def is_spike(samples: Sequence[Sample], limit: int) -> bool:
    """Level for a while, then up at once. A steady climb is no spike, however steep its last part."""
    if not samples or samples[-1].time - samples[0].time < FLAT_SECONDS + SPIKE_SECONDS:
        return False
    end = samples[-1].time
    peak = max(s.use for s in samples if s.time >= end - SPIKE_SECONDS)
    level = [s.use for s in samples if end - SPIKE_SECONDS - FLAT_SECONDS <= s.time < end - SPIKE_SECONDS]
    if not level:
        return False
    return max(level) - min(level) <= FLAT_SHARE * limit and peak - max(level) >= SPIKE_SHARE * limit
