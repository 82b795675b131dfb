"""Every victim gets the verdict it deserves: deaths by their cause, near-misses none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from .zoo import ZOO, Victim, complaints, perform

VICTIMS = [victim for victim in ZOO if not victim.slow]


@pytest.fixture(scope="module")
def aside(request, tmp_path_factory):
    """Victims that need nothing special spend their time waiting: one after the other, beside those that train."""
    chosen = [item.callspec.params["victim"] for item in request.session.items if "test_verdict[" in item.nodeid]
    light = [victim for victim in chosen if not victim.needs and victim.setting == "plain"]
    with ThreadPoolExecutor(1) as pool:
        yield {victim.id: pool.submit(perform, victim, tmp_path_factory.mktemp("aside")) for victim in light}


@pytest.mark.parametrize("victim", VICTIMS, ids=lambda victim: victim.id)
def test_verdict(victim: Victim, tmp_path, needs, aside):
    needs(*victim.needs)
    outcome = aside[victim.id].result() if victim.id in aside else perform(victim, tmp_path)
    wrong = complaints(victim, outcome)
    assert not wrong, "\n".join([*wrong, outcome.stderr[-3000:], outcome.stdout[-1500:]])


def test_there_are_enough_victims():
    assert len(ZOO) >= 35
