"""Every victim gets the verdict it deserves: deaths by their cause, near-misses none."""

from __future__ import annotations

import pytest

from .zoo import ZOO, Victim, complaints, perform

VICTIMS = [victim for victim in ZOO if not victim.slow]


@pytest.mark.parametrize("victim", VICTIMS, ids=lambda victim: victim.id)
def test_verdict(victim: Victim, tmp_path, needs):
    needs(*victim.needs)
    outcome = perform(victim, tmp_path)
    wrong = complaints(victim, outcome)
    assert not wrong, "\n".join([*wrong, outcome.stderr[-3000:], outcome.stdout[-1500:]])


def test_there_are_enough_victims():
    assert len(ZOO) >= 35
