"""A forecast that was wrong by more than its interval is a finding; one that was right is none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keepfit.conditions.memory import forecast_missed
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
