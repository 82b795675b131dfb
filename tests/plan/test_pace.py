"""A trial has as many rows as end in the time there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keepfit.plan.micro_batch import Trial
from keepfit.plan.pace import STEPS, affordable

seconds = st.floats(0.001, 60)
trials = st.builds(Trial, st.integers(1, 2000), st.just(1 << 30), seconds)


@given(st.lists(trials, min_size=1, max_size=4), seconds, st.integers(1, 4000))
def test_what_is_afforded_ends_in_time_and_is_no_more_than_was_wished(timed, left, wished):
    rows = affordable(timed, left, wished)
    largest = max(timed, key=lambda trial: trial.rows)
    assert 0 <= rows <= wished
    assert rows * STEPS * largest.seconds / largest.rows <= left * 1.001
    assert rows == wished or (rows + 1) * STEPS * largest.seconds / largest.rows > left * 0.999


def test_before_anything_was_timed_nothing_is_refused():
    assert affordable([], 1.0, 64) == 64


def test_no_time_is_no_row():
    assert affordable([Trial(8, 1 << 30, 0.1)], -3.0, 64) == 0


def test_few_rows_do_not_tell_how_fast_many_are():
    one, many = Trial(1, 1 << 30, 1.0), Trial(100, 1 << 30, 2.0)
    assert affordable([one, many], 60.0, 400) == 400 > affordable([one], 60.0, 400)
