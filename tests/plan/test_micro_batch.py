"""Choosing a micro-batch: always inside the target, never nothing, never the same again after a death."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keepfit.plan import micro_batch
from keepfit.plan.micro_batch import Estimate, Line, Room, Trial

MIB = 1 << 20
limits = st.integers(200, 64 * 1024).map(lambda mib: mib * MIB)
batches = st.integers(2, 5000)
lines = st.builds(Line, st.floats(50 * MIB, 4096 * MIB), st.floats(1024, 64 * MIB))


@given(limits, batches, lines, st.integers(0, 500))
def test_the_choice_fits_wherever_a_row_does(limit, rows, line, others):
    room = Room(limit, others * MIB)
    chosen = micro_batch.choose(room, rows, line)
    assert 1 <= chosen <= rows
    assert line.peak(chosen) <= room.target_from(line.base) or chosen == 1


@given(limits, batches, lines)
def test_what_a_step_needs_whatever_its_rows_leaves_room_that_is_shared(limit, rows, line):
    """Half of what is left is used, and half stays free, where the fixed part alone is beyond the target."""
    room = Room(limit, 0)
    assert room.target <= room.target_from(line.base)
    if line.base < limit:
        assert room.target_from(line.base) < limit


@given(limits, batches, lines)
def test_the_choice_is_the_largest_of_its_number_of_parts(limit, rows, line):
    """One part fewer would not fit."""
    room = Room(limit, 0)
    chosen = micro_batch.choose(room, rows, line)
    parts, target = -(-rows // chosen), room.target_from(line.base)
    if parts > 2 and line.largest(target) >= 1:
        assert line.peak(-(-rows // (parts - 1))) > target - line.slope
    if parts == 2:
        assert line.peak(rows) > micro_batch.WHOLE * target - line.slope


@given(batches, lines, limits, limits)
def test_more_memory_never_means_a_smaller_micro_batch(rows, line, one, other):
    less, more = sorted((one, other))
    assert micro_batch.choose(Room(less, 0), rows, line) <= micro_batch.choose(Room(more, 0), rows, line)


@given(limits, st.integers(2, 5000), st.integers(1, 4), st.none() | lines, limits)
def test_after_a_death_it_is_always_smaller(limit, used, attempt, line, reached):
    smaller = micro_batch.smaller(Room(limit, 0), used, attempt, line, reached)
    assert smaller is not None and 1 <= smaller <= max(1, used // 2) < used


def test_with_one_row_there_is_nothing_left_to_change():
    assert micro_batch.smaller(Room(1 << 30, 0), 1, 1, None, 0) is None


@given(limits, batches, st.integers(1, 4000), st.integers(0, 64), st.integers(50, 4000))
def test_trials_are_small_and_grow(limit, rows, whole, one, in_use):
    estimate = Estimate((whole + one) * MIB, one * MIB)
    room = Room(limit, 0)
    first = micro_batch.first_trial(room, in_use * MIB, rows, estimate)
    assert 1 <= first <= max(1, rows // 4)
    second = micro_batch.second_trial(room, in_use * MIB, Trial(first, in_use * MIB), rows, estimate)
    assert first < second <= max(first + 1, rows // 2)


@given(lines, st.integers(1, 100), st.integers(1, 100))
def test_a_line_is_found_again(line, first, more):
    trials = [Trial(rows, line.peak(rows)) for rows in (first, first + more)]
    found = micro_batch.line(trials, 1000, None)
    assert abs(found.peak(500) - line.peak(500)) <= 600 + line.slope * 0.01 * 500


def test_a_slope_that_drowned_in_noise_is_the_estimates():
    estimate = Estimate(1024 * MIB, 0)  # 1 MiB a row, within a factor of two
    for noise, slope in ((-5, 1), (1, 1), (5, 2)):
        found = micro_batch.line([Trial(16, 300 * MIB), Trial(17, (300 + noise) * MIB)], 1024, estimate)
        assert abs(found.slope / MIB - slope) < 0.01
    steep = micro_batch.line([Trial(16, 300 * MIB), Trial(18, 340 * MIB)], 1024, estimate)
    assert steep.slope == 20 * MIB  # no noise is so large


def test_comfort_allows_for_an_estimate_that_is_half_of_the_truth():
    room = Room(1000 * MIB, 0)
    assert micro_batch.is_comfortable(room, 300 * MIB, Estimate(300 * MIB, 0))
    assert not micro_batch.is_comfortable(room, 300 * MIB, Estimate(320 * MIB, 0))


def test_a_smaller_micro_batch_is_taken_for_its_speed():
    assert micro_batch.faster(Trial(10, 0, 1.0), Trial(100, 0, 11.0))
    assert not micro_batch.faster(Trial(10, 0, 1.0), Trial(100, 0, 10.2))
    assert not micro_batch.faster(Trial(10, 0, 0.0), Trial(100, 0, 11.0))


def test_a_real_step_that_needed_more_corrects_the_line():
    line = Line(100.0, 2.0)
    assert micro_batch.corrected(line, Trial(10, 150)).peak(10) == 150
    assert micro_batch.corrected(line, Trial(10, 90)) == line


def test_a_smaller_micro_batch_is_worth_what_it_gives_back():
    assert micro_batch.given_back(8, 8, Line(0.0, 10.0), None) == 40.0
    assert micro_batch.given_back(9, 9, None, Estimate(90, 10)) == 50.0
    assert micro_batch.given_back(1, 8, Line(0.0, 10.0), None) == 0.0
    assert micro_batch.given_back(2, 8, None, None) == float("inf")


def test_states_are_left_their_room_where_that_is_small():
    line, room = Line(300 * MIB, MIB), Room(1024 * MIB, 0)
    rooms = (Room(1024 * MIB, 0, saving * MIB) for saving in (0, 100, 600))
    alone, beside, costly = (micro_batch.choose(each, 100_000, line) for each in rooms)
    assert alone == costly > beside and line.peak(beside) + 100 * MIB <= room.target < line.peak(alone) + 100 * MIB
