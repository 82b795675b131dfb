"""A forecast that was wrong by more than its interval is a finding; one that was right is none."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from keepfit.conditions import verdict
from keepfit.conditions.memory import forecast_missed, split_batch
from keepfit.facts import Attempt, Splitting
from keepfit.plan import forecast

MIB = 1 << 20


@given(st.integers(100, 10_000), st.floats(0.3, 3.0))
def test_only_what_lies_outside_is_told(expected, times):
    low, high = forecast.static_interval(expected * MIB)
    peak = int(expected * times * MIB)
    report = {"kind": "forecast", "forecast": expected * MIB, "peak": peak, "low": low, "high": high}
    told = forecast_missed.watch(report)
    assert (told is None) == (low <= peak <= high)
    assert forecast_missed.watch({**report, "kind": "climbing"}) is None


def test_forecast_against_fact_is_the_one_from_before_the_first_step():
    """A first step that needed more has corrected what came after; of two trainings the larger makes the peak."""
    large = Splitting("train", batch=64, rows=32, slope=MIB, base=400 * MIB, key="large")
    small, validation = replace(large, base=100 * MIB, key="small"), replace(large, step="test", base=900 * MIB)
    tried, corrected = replace(large, rows=1, trial=True), replace(large, rows=16, base=500 * MIB)
    for decided in [(tried, large, corrected, small, validation), (small, tried, large, corrected)]:
        assert verdict._memory(Attempt(splittings=decided)).forecast_bytes == 432 * MIB
    assert verdict._memory(Attempt()).forecast_bytes == 0


def test_a_micro_batch_that_is_corrected_says_why():
    report = {"kind": "corrected-split", "step": "train", "batch": 1024, "rows": 256, "parts": 4, "tried": 342,
              "peak": 948 * MIB, "limit": 1 << 30, "needs": 2 << 30, "faster": False}  # fmt: skip
    begins = "batch 1024 goes on in 4 micro-batches of 256: 342"
    assert split_batch.watch(report) == f"{begins} peaked at 948 MiB of 1.00 GiB"
    assert split_batch.watch({**report, "faster": True}) == f"{begins} rows at a time were slower"
