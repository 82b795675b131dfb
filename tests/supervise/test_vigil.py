"""What the vigil gathers: from when on a training counts as silent."""

from __future__ import annotations

import os

from keepfit.conditions.process.hang import Watchfulness
from keepfit.facts import Beat, Sample
from keepfit.supervise.vigil import Vigil

FINE, SUSPECTED = Watchfulness.FINE, Watchfulness.SUSPECTED


def seen(doings: list[str]) -> list[Watchfulness]:
    """One look a second at a training whose last heartbeat was at the first of them."""
    vigil = Vigil(os.getpid(), None, None)
    vigil.beat(Beat(100.0, os.getpid(), "train", steps=5, slowest=0.01))
    return [vigil.look(Sample(100.0 + second, state="S"), doing, 0)[0] for second, doing in enumerate(doings)]


def test_a_step_that_does_not_end_is_suspected():
    assert seen(["stepping"] * 12)[-3:] == [FINE, SUSPECTED, SUSPECTED]


def test_coming_back_from_a_long_callback_is_no_stall():
    assert set(seen(["callback"] * 12 + ["stepping"] * 9)) == {FINE}


def test_a_stall_after_a_callback_is_seen_all_the_same():
    assert seen(["callback"] * 12 + ["stepping"] * 11)[-1] is SUSPECTED


def test_the_time_at_a_prompt_or_stopped_is_no_silence_of_the_training():
    """After an hour in which it was stopped, its next step has as long as any."""
    vigil = Vigil(os.getpid(), None, None)
    vigil.beat(Beat(0.0, os.getpid(), "train"))
    vigil.look(Sample(0.0, state="S"), "stepping", 0)
    for second in range(1, 3600):
        assert vigil.look(Sample(float(second), state="T"), "stepping", 0)[0] is FINE
    for second, found in ((3600, FINE), (3608, FINE), (3610, SUSPECTED)):
        assert vigil.look(Sample(float(second), state="S"), "stepping", 0)[0] is found
    assert vigil.look(Sample(3690.0, state="S"), "stepping", 0)[0] is Watchfulness.HANG
