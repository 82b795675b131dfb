"""When a look is thought about: at once where anything moves, five times a second where nothing does."""

from __future__ import annotations

import pytest

from keepfit.blackbox import wire
from keepfit.blackbox.pulse import Pulse
from keepfit.supervise.calm import REST, Calm

LIMIT = 1000 << 20


@pytest.fixture
def pulse():
    made = Pulse()
    yield made
    made.close()


def thought_about(calm, uses, apart=0.05):
    """Which of these looks, one after another."""
    return [calm.is_over(100 + number * apart, use << 20) for number, use in enumerate(uses)]


def test_while_nothing_moves_one_look_in_four(pulse):
    said = thought_about(Calm(LIMIT, pulse), [300] * 40)
    assert said[0] and 8 <= sum(said) <= 11
    assert all(any(said[start : start + 6]) for start in range(34)), REST


def test_use_that_moves_is_thought_about_at_once(pulse):
    assert thought_about(Calm(LIMIT, pulse), [300, 311, 322, 310, 305])[:4] == [True, True, True, True]
    slowly = thought_about(Calm(LIMIT, pulse), [300, 304, 308, 312])  # by less than that, but from the last thought
    assert slowly == [True, False, False, True]


def test_near_the_limit_every_look_counts(pulse):
    assert all(thought_about(Calm(LIMIT, pulse), [810] * 10))


def test_a_question_is_not_kept_waiting(pulse):
    calm = Calm(LIMIT, pulse)
    assert thought_about(calm, [300, 300]) == [True, False]
    wire.PULSE_QUESTION.post(pulse._memory, 1, {"ask": "batch"})
    assert calm.is_over(100.06, 300 << 20)
    pulse.question()
    assert not calm.is_over(100.07, 300 << 20)


def test_without_a_limit_or_an_agent(pulse):
    assert all(thought_about(Calm(None, pulse), [300] * 10))
    assert thought_about(Calm(LIMIT, None), [300, 300, 300]) == [True, False, False]
