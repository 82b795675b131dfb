"""Killed at awkward moments, a training ends with the same bits as one that was never touched."""

from __future__ import annotations

import random
import sys

import pytest

from .. import stage
from . import killing

pytestmark = pytest.mark.skipif(bool(stage.why_no_tensorflow()), reason=str(stage.why_no_tensorflow()))

STEPS = 13  # batches of an epoch
EPOCHS = 4


def moments(seed: int) -> list[list[object]]:
    """Deaths at random moments; counts go on over attempts, so they come in some order or other."""
    draw = random.Random(seed)
    return [
        ["batch-begin", draw.randint(2, STEPS)],
        ["validation", draw.randint(1, 6)],
        ["batch-end", draw.randint(2 * STEPS, 4 * STEPS)],
    ]


# Every model and every source; all twelve pairs are in `bench deaths`.
PAIRS = [("cnn", "generator"), ("transformer", "tfdata"), ("transformer", "pydataset"), ("lstm", "arrays")]


@pytest.mark.parametrize(("model", "source"), PAIRS)
def test_killed_equals_untouched(tmp_path, model, source):
    kind = {"model": model, "source": source, "epochs": EPOCHS}
    wanted = killing.beside(tmp_path / "plain", **kind)
    seed = sum(ord(letter) for letter in model + source)
    outcome = killing.killed(tmp_path, deaths=moments(seed), **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 3
    assert killing.result(tmp_path) == wanted()


@pytest.mark.parametrize("source", ["cached", "shuffled_and_cached"])
def test_a_cache_goes_on_too(tmp_path, source):
    """Killed while it is filled, after the shuffle before it has given its last element, and while it is read."""
    kind = {"model": "dense", "source": source, "epochs": 4}
    wanted = killing.beside(tmp_path / "plain", **kind)
    deaths = [
        ["batch-begin", 4, "save"],
        ["batch-end", 6],
        ["batch-begin", STEPS + 2, "save"],
        ["batch-begin", STEPS + 3],
    ]
    deaths += [["batch-begin", 2 * STEPS + 3, "save"], ["batch-begin", 2 * STEPS + 5], ["batch-end", 3 * STEPS + 6]]
    outcome = killing.killed(tmp_path, deaths=deaths, **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 4
    assert killing.result(tmp_path) == wanted()


@pytest.mark.parametrize("validation", ["tfdata"])
def test_validation_goes_on_too(tmp_path, validation):
    """Killed after some validations, and again before the next: their shuffles go on as well."""
    kind = {"model": "dense", "source": validation, "validation": validation, "epochs": EPOCHS, "fits": 2}
    wanted = killing.beside(tmp_path / "plain", **kind)
    deaths = [["batch-end", 2 * STEPS + 4], ["batch-end", 2 * STEPS + 7], ["batch-end", 6 * STEPS]]
    outcome = killing.killed(tmp_path, deaths=deaths, **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 3
    assert killing.result(tmp_path) == wanted()


def test_two_programs_of_one_run_are_not_taken_for_each_other(tmp_path):
    """The second one dies: in the next attempt the first is skipped through, and the second goes on, not the first."""
    kinds = [{"model": "dense", "source": "arrays", "epochs": EPOCHS, "seed": seed} for seed in (1, 2)]
    wanted = [killing.beside(tmp_path / f"plain{n}", **kind) for n, kind in enumerate(kinds)]
    plans = [killing.plan(tmp_path / str(n), **kind, deaths=[["batch-end", 30]] * n) for n, kind in enumerate(kinds)]
    script = 'for plan in "$@"; do "$0" "$SCRIPT" "$plan" || exit 1; done'
    command = ["sh", "-c", script, sys.executable, *plans]
    process = stage.start(tmp_path / "runs", command, SCRIPT=str(stage.VICTIMS / "resumes.py"))
    outcome = stage.finish(process, tmp_path / "runs")
    second = outcome if outcome.status == 0 else None
    if second is None:  # a shell that passes a child's death on as a status of its own is not started again by itself
        again = stage.start(
            tmp_path / "runs", command, ["--resume", "latest"], SCRIPT=str(stage.VICTIMS / "resumes.py")
        )
        second = stage.finish(again, tmp_path / "runs")
    assert second.status == 0, second.stderr
    assert [killing.result(tmp_path / str(n)) for n in range(2)] == [each() for each in wanted]
    assert len([event for event in second.events("resumed") if event.get("skipped")]) == 1


@pytest.mark.parametrize(
    "compiled", [{"jit_compile": True}, {"steps_per_execution": 4}], ids=lambda compiled: next(iter(compiled))
)
def test_ways_to_run_a_step(tmp_path, compiled):
    kind = {"model": "transformer", "source": "tfdata", "epochs": EPOCHS, "compile": compiled}
    wanted = killing.beside(tmp_path / "plain", **kind)
    outcome = killing.killed(tmp_path, deaths=[["batch-end", 2], ["batch-end", 8]], **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 2
    assert killing.result(tmp_path) == wanted()


@pytest.mark.parametrize(
    "deaths",
    [
        [["writing", 1], ["writing", 2], ["writing", 3]],
        [["epoch-end", EPOCHS], ["batch-end", EPOCHS * STEPS + 3], ["between-fits", 1]],
    ],
    ids=["while a state is written", "last step, and between two fits"],
)
def test_awkward_moments(tmp_path, deaths):
    kind = {"model": "cnn", "source": "tfdata", "epochs": EPOCHS, "fits": 2}
    wanted = killing.beside(tmp_path / "plain", **kind)
    outcome = killing.killed(tmp_path, deaths=deaths, **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == len(deaths)
    assert killing.result(tmp_path) == wanted()


def test_killed_every_few_batches_it_comes_through(tmp_path):
    """Sooner after its start than a state would be due: after a death in vain one is saved as soon as it can be."""
    kind = {"model": "cnn", "source": "arrays", "epochs": 4}
    wanted = killing.beside(tmp_path / "plain", **kind)
    outcome = killing.killed(tmp_path, deaths=[["batch-end", 12 * number] for number in range(1, 8)], **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) >= 4
    assert killing.result(tmp_path) == wanted()


def test_a_shuffle_that_has_given_its_last_element(tmp_path):
    """It is gone from the iterator some batches before the epoch's end, and with it the seeds of the next epochs."""
    kind = {"model": "dense", "source": "tfdata", "validation": "tfdata", "epochs": EPOCHS}
    wanted = killing.beside(tmp_path / "plain", **kind)
    deaths = [["batch-begin", STEPS, "save"], ["validation", 1], ["batch-begin", 2 * STEPS, "save"], ["epoch-end", 2]]
    outcome = killing.killed(tmp_path, deaths=deaths, **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 2
    assert killing.result(tmp_path) == wanted()


@pytest.mark.parametrize("source", ["arrays", "from_generator"])
def test_unseeded_every_sample_once_an_epoch(tmp_path, source):
    kind = {"model": "census", "source": source, "epochs": EPOCHS, "seed": None}
    deaths = [["batch-end", 5], ["batch-end", 20]]
    outcome = killing.killed(tmp_path, deaths=deaths, **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 2
    assert killing.result(tmp_path)["counts"] == [EPOCHS]


def test_a_train_step_with_two_optimizers_of_its_own(tmp_path):
    plain, kept = tmp_path / "plain.txt", tmp_path / "kept.txt"
    undisturbed = stage.beside(tmp_path / "said", stage.victim("two_optimizers.py", str(plain)))
    outcome = stage.run(tmp_path / "runs", stage.victim("two_optimizers.py", str(kept), str(tmp_path / "mark")))
    assert outcome.status == 0, outcome.stderr
    assert len(outcome.events("resumed")) == 1, outcome.events("report")
    undisturbed()
    assert kept.read_text() == plain.read_text()
