"""What is waited for is said after a few seconds, and rarely after that."""

from __future__ import annotations

from keepfit.blackbox import wire
from keepfit.supervise import waiting
from keepfit.supervise.waiting import Waiting

SEEN = ("agent",)


def told(*looks):
    """The lines that are said at looks of (seconds, phase, events)."""
    said = []
    one = Waiting(said.append, 600.0)
    for passed, phase, events in looks:
        if one.is_due(passed):
            one.look(passed, 7, phase, events)
    return said


def test_a_quick_script_is_not_commented_on():
    assert told((0.1, "start", ()), (4.9, "trace", ("agent", "fitting"))) == []


def test_what_it_waits_for_and_what_the_script_does_is_said_once():
    said = told((5.0, "data", SEEN), (7.0, "build", SEEN), (30.0, "data", SEEN), (66.0, "data", SEEN))
    assert said[0] == (
        "waiting for the script to come to its training call (model.fit or a loop of its own); it is preparing its "
        "data or its model, PID 7; at most 600 s (--timeout), Ctrl-C ends it"
    )
    assert said[1:] == [said[0]]


def test_a_training_call_that_comes_is_said_at_once():
    said = told((5.0, "data", SEEN), (7.0, "data", (*SEEN, "fitting")), (30.0, "trace", (*SEEN, "fitting")))
    assert len(said) == 2 and "has come to its training call: its first batch is read and its step is traced" in said[1]


def test_a_program_without_the_agent_is_not_said_to_prepare_anything():
    assert "it is not seen yet: keepfit's agent is in no Python process of it, PID 7" in told((5.0, "start", ()))[0]


def test_it_does_not_look_at_the_journal_at_every_turn():
    one = Waiting(lambda _text: None, 600.0)
    one.look(5.0, 7, "data", SEEN)
    assert not one.is_due(5.5) and one.is_due(6.0)


def test_every_phase_has_its_words():
    assert set(wire.PHASES) - {"end"} == set(waiting.DOING)
