"""Whether to start again: a table of deaths, pure judgement."""

from __future__ import annotations

import pytest

from keepfit.blackbox.states import Manifest
from keepfit.facts import MemoryFacts, Verdict, Where
from keepfit.supervise import policy
from keepfit.supervise.policy import Again, Standing

STATE = Manifest(number=7, fit=1, epoch=2, batch=16)


def standing(cause: str, newest: Manifest | None = STATE, before: int = 3, same: int = 0, training: bool = True):
    return Standing(cause, newest, before, same, training)


@pytest.mark.parametrize(
    "cause", ["killed_unknown", "terminated", "segfault", "abort", "hang", "host_oom", "bus_error"]
)
def test_with_progress_it_goes_on(cause):
    assert policy.another(standing(cause), None) == Again("resumed at epoch 3, batch 17")


@pytest.mark.parametrize(
    "cause", ["python_error", "exit_nonzero", "import_error", "interrupted", "time_limit", "finished"]
)
def test_the_scripts_own_errors_and_ends_are_not_tried_again(cause):
    assert policy.another(standing(cause), None) is None


@pytest.mark.parametrize("cause", ["segfault", "hang", "memory_budget"])
def test_the_same_death_without_progress_ends_it(cause):
    assert policy.another(standing(cause, before=7), None) is None


def test_a_kill_from_outside_is_put_up_with_a_few_times():
    tries = [policy.another(standing("killed_unknown", before=7, same=same), None) for same in range(4)]
    assert [found is not None for found in tries] == [True, True, True, False]
    assert tries[2] is not None and tries[2].fruitless == 3


def test_without_a_state_only_a_training_that_was_killed_from_outside_begins_again():
    assert policy.another(standing("killed_unknown", None, 0), None) == Again("from the start", fruitless=1)
    assert policy.another(standing("killed_unknown", None, 0, training=False), None) is None
    assert policy.another(standing("segfault", None, 0), None) is None


def test_the_network_gets_time_that_doubles():
    pauses = [policy.another(standing("network", before=7, same=same), None) for same in range(6)]
    assert [found.pause if found else None for found in pauses] == [5.0, 10.0, 20.0, 40.0, 80.0, None]


def test_want_of_memory_brings_a_smaller_micro_batch_even_without_progress():
    assert policy.another(standing("memory_budget", None, 0), "micro-batch 64 → 32") == Again(
        "micro-batch 64 → 32", fruitless=1
    )
    found = policy.another(standing("memory_budget"), "micro-batch 64 → 32")
    assert found is not None and found.changed == "micro-batch 64 → 32, resumed at epoch 3, batch 17"


def test_a_leak_is_gone_past_as_long_as_there_is_progress():
    assert policy.another(standing("cgroup_oom"), None) is not None
    assert policy.another(standing("cgroup_oom", before=7), None) is None


def test_an_end_is_told_as_one():
    assert policy.where(Manifest(number=1, fit=2, kind="end")) == "the end of fit 2"
    assert policy.where(Manifest(number=1, fit=2, epoch=0, batch=4)) == "fit 2, epoch 1, batch 5"


@pytest.mark.parametrize(
    ("cause", "phase", "peak", "wanted"),
    [
        ("memory_budget", "train", 10, True),
        ("memory_budget", "data", 10, False),
        ("model_too_large", "train", 10, True),
        ("segfault", "train", 90, True),
        ("segfault", "train", 50, False),
        ("killed_unknown", "train", 99, False),
    ],
)
def test_when_less_memory_may_help(cause, phase, peak, wanted):
    death = Verdict(
        run="r", outcome="died", cause=cause, because=(), code="KF000", confidence="certain", summary="",
        where=Where(phase=phase), memory=MemoryFacts(limit_bytes=100, peak_bytes=peak),
    )  # fmt: skip
    assert policy.wants_less_memory(death) is wanted
