"""Forecasts as pure functions: what is tried, what follows from it, and what fits."""

from __future__ import annotations

import dataclasses

from hypothesis import example, given
from hypothesis import strategies as st

from keepfit.plan import forecast, largest, options
from keepfit.plan.micro_batch import Trial

MIB = 1 << 20


def facts(rows=256, base=300 * MIB, row=4 * MIB, **more):
    """A training whose graph says `row` bytes for each row."""
    told = {
        "rows": rows, "in_use": base, "files": 250 * MIB,
        "model": {"weights": 40 * MIB, "trainable": 40 * MIB, "optimizer": 80 * MIB},
        "static": [(count, count * row) for count in (1, rows // 8 or 2, rows, 2 * rows)], **more,
    }  # fmt: skip
    return forecast.Facts.of(told)


def tried(known, base, row):
    """As `plan` does it, where the truth is base + rows x row."""
    trials = []
    while rows := forecast.next_trial(known, 16 << 30, trials):
        trials.append(Trial(rows, base + rows * row, 0.1 + rows * 0.001))
    return trials


@given(st.integers(2, 4096), st.integers(200, 900), st.integers(1, 40), st.floats(0.5, 2.0))
@example(1364, 200, 1, 0.5)
def test_a_straight_line_is_found_whatever_the_graph_said(rows, base, row, wrong):
    known = facts(rows, base * MIB, int(row * wrong * MIB))
    trials = tried(known, base * MIB, row * MIB)
    if len(trials) < 2 or trials[1].peak - trials[0].peak < 512 * MIB:
        return  # too small to tell, or too large to try
    point = forecast.forecast(known, trials, rows)
    truth = known.files + (base + rows * row) * MIB
    assert abs(point.peak - truth) <= 0.08 * truth and point.how == "measured"


def test_what_is_small_is_told_by_the_graph_and_what_is_large_by_the_trials():
    known = facts(rows=256, row=4 * MIB)
    near = [Trial(8, 400 * MIB), Trial(16, 480 * MIB)]  # ten MiB a row, by chance
    far = [Trial(32, 400 * MIB), Trial(1024, 8 << 30)]
    slopes = [forecast.line(known, trials).slope / MIB for trials in (near, far)]
    assert slopes[0] < 4.6 and 7.5 < slopes[1] < 7.9


@given(st.integers(1, 10_000), st.integers(64, 8192), st.integers(1, 64))
def test_nothing_is_tried_that_could_reach_the_limit(rows, limit, row):
    known = facts(rows, row=row * MIB)
    first = forecast.next_trial(known, limit * MIB, [])
    assert first == 0 or known.in_use + known.alive(first) <= limit * MIB
    if first:
        peak = known.in_use + known.alive(first)
        second = forecast.next_trial(known, limit * MIB, [Trial(first, peak)])
        assert second == 0 or (first < second <= rows and peak + known.alive(second - first) <= limit * MIB)


def test_without_a_measurement_the_graph_stands_alone():
    known = facts(cut="a sparse tensor cannot be cut by rows")
    assert forecast.next_trial(known, 1 << 40, []) == 0
    point = forecast.forecast(known, [], known.rows)
    assert point.how == "static" and point.peak == known.files + known.in_use + known.alive(known.rows)


def test_what_a_pipeline_will_hold_is_added():
    cache = {"stage": "cache", "elements": 100, "bytes": 500 * MIB}
    shuffle = {"stage": "shuffle", "elements": 60, "bytes": 300 * MIB}  # full already, and of the cache's own elements
    for stages, more in (([cache], 500), ([cache, shuffle], 200), ([shuffle], 0)):
        added = forecast.static(facts(pipeline=stages), 256).peak - forecast.static(facts(), 256).peak
        assert added == more * MIB


@given(st.integers(2, 512), st.integers(1, 30), st.integers(1, 16), st.floats(0.92, 1.1))
def test_the_largest_batch_takes_two_trials_and_never_fails(rows, row, multiple, bent):
    """Where the line of the small ones is wrong by a tenth, the first verification is still inside the limit."""
    known = facts(rows, 300 * MIB, row * MIB)
    trials = tried(known, 300 * MIB, row * MIB)
    limit = 300 * MIB + 200 * row * MIB + 400 * MIB
    wanted = largest.Wanted(limit, multiple)

    def truth(size):
        return int(300 * MIB + size * row * MIB * bent)

    verified = []
    while size := largest.next_size(known, trials, verified, wanted):
        assert size % multiple == 0
        verified.append(Trial(size, truth(size)))
        assert truth(size) <= limit
    assert len(verified) <= largest.TRIALS
    found = largest.largest(verified, wanted)
    assert found in {trial.rows for trial in verified} | {0}


def test_options_are_cheaper_than_nothing_and_say_whether_results_stay():
    known = facts()
    trials = tried(known, 300 * MIB, 4 * MIB)
    point = forecast.forecast(known, trials, known.rows)
    found = options.priced(known, trials, 800 * MIB)
    assert found[0].name == "micro_batch" and found[0].exact and found[0].peak < 800 * MIB + known.files
    (machine,) = (option for option in found if option.name == "machine")
    assert point.high <= int(machine.value.removesuffix("GiB")) << 30 < 2 * point.high and machine.exact
    assert all(option.peak < point.peak for option in found if option is not machine)
    assert not any(option.name == "machine" for option in options.priced(known, trials, 2 * point.high))
    exact = [option.exact for option in found]
    assert exact == sorted(exact, reverse=True)


def test_a_validation_that_is_the_peak_was_not_measured():
    known = facts()
    trials = tried(known, 300 * MIB, 4 * MIB)
    measured = forecast.forecast(known, trials, known.rows)
    larger = dataclasses.replace(known, validation=2 * measured.peak)
    point = forecast.forecast(larger, trials, known.rows)
    assert point.how == "static" and point.peak > measured.peak and forecast.in_validation(larger)
    assert (point.low, point.high) == forecast.static_interval(point.peak)


def test_the_breakdown_adds_up_to_the_forecast():
    known = facts()
    point = forecast.forecast(known, tried(known, 300 * MIB, 5 * MIB), known.rows)
    assert abs(sum(forecast.breakdown(known, point).values()) - point.peak) < 0.35 * point.peak
