"""The rule that must never kill the healthy, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keepfit.conditions.process.hang import Stillness, Watchfulness, assess

STUCK = Stillness(
    phase="train", doing="stepping", silent=100, slowest=0.5, motionless=100, same_stacks=0, cpu_share=0.0
)
FINE, SUSPECTED, HANG = Watchfulness.FINE, Watchfulness.SUSPECTED, Watchfulness.HANG


def judged(**changes):
    return assess(replace(STUCK, **changes))[0]


def test_stuck_is_stuck():
    assert judged() is HANG


def test_suspected_first():
    assert judged(silent=9.9, motionless=9.9) is FINE
    assert judged(silent=10.1, motionless=10.1) is SUSPECTED
    assert judged(silent=89, motionless=89) is SUSPECTED


def test_slow_steps_get_more_time():
    assert judged(silent=49, slowest=10) is FINE
    assert judged(silent=51, slowest=10) is SUSPECTED
    assert judged(silent=199, motionless=199, slowest=10) is SUSPECTED
    assert judged(silent=201, motionless=201, slowest=10) is HANG


def test_a_tree_that_moves_is_only_suspected():
    assert judged(silent=1000, motionless=3, cpu_share=0.9) is SUSPECTED


def test_same_stacks_count_only_when_nothing_computes():
    assert judged(motionless=3, same_stacks=31, cpu_share=0.01) is HANG
    assert judged(motionless=3, same_stacks=31, cpu_share=0.5) is SUSPECTED, "one long native operation"
    assert judged(motionless=3, same_stacks=29, cpu_share=0.01) is SUSPECTED


@pytest.mark.parametrize("doing", ["filling", "callback", "saving", "between"])
def test_not_while_something_else_goes_on(doing):
    assert judged(doing=doing, silent=10_000, motionless=10_000) is FINE


def test_the_body_of_a_hand_written_loop_is_only_suspected():
    assert judged(doing="looping", silent=10_000, motionless=10_000) is SUSPECTED


@pytest.mark.parametrize("phase", [None, "start", "import", "data", "build", "trace", "validation", "predict", "end"])
def test_only_in_training(phase):
    assert judged(phase=phase, silent=10_000, motionless=10_000) is FINE


@pytest.mark.parametrize("excuse", ["stopped", "held by a debugger", "waiting at a prompt"])
def test_excused(excuse):
    assert judged(excused=excuse, silent=10_000, motionless=10_000) is FINE
    assert judged(excused=excuse, silent=10_000, motionless=10_000, hang_after=5) is FINE


def test_the_users_own_number():
    assert judged(hang_after=5, silent=6) is HANG
    assert judged(hang_after=5, silent=3) is SUSPECTED
    assert judged(hang_after=5, silent=2) is FINE
    assert judged(hang_after=5, silent=6, phase=None, motionless=6) is HANG
    assert judged(hang_after=5, silent=6, phase=None, motionless=1) is FINE, "no heartbeats, but it moves"
