"""Killed at awkward moments, a training ends with the same bits as one that was never touched."""

from __future__ import annotations

import random

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


@pytest.mark.parametrize("source", ["arrays", "tfdata", "pydataset", "generator"])
@pytest.mark.parametrize("model", ["cnn", "transformer", "lstm"])
def test_killed_equals_untouched(tmp_path, model, source):
    kind = {"model": model, "source": source, "epochs": EPOCHS}
    wanted = killing.undisturbed(tmp_path / "plain", **kind)
    seed = sum(ord(letter) for letter in model + source)
    outcome = killing.killed(tmp_path, deaths=moments(seed), **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 3
    assert killing.result(tmp_path) == wanted


@pytest.mark.parametrize(
    "compiled", [{"jit_compile": True}, {"steps_per_execution": 4}, {"run_eagerly": True}], ids=lambda c: next(iter(c))
)
def test_ways_to_run_a_step(tmp_path, compiled):
    kind = {"model": "transformer", "source": "tfdata", "epochs": EPOCHS, "compile": compiled}
    wanted = killing.undisturbed(tmp_path / "plain", **kind)
    outcome = killing.killed(tmp_path, deaths=[["batch-end", 2], ["batch-end", 8]], **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 2
    assert killing.result(tmp_path) == wanted


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
    wanted = killing.undisturbed(tmp_path / "plain", **kind)
    outcome = killing.killed(tmp_path, deaths=deaths, **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == len(deaths)
    assert killing.result(tmp_path) == wanted


@pytest.mark.parametrize("source", ["arrays", "tfdata", "pydataset", "from_generator"])
def test_unseeded_every_sample_once_an_epoch(tmp_path, source):
    kind = {"model": "census", "source": source, "epochs": EPOCHS, "seed": None}
    deaths = [["batch-end", 5], ["batch-end", 20], ["epoch-end", 2]]
    outcome = killing.killed(tmp_path, deaths=deaths, **kind)
    assert outcome.status == 0, outcome.stderr
    assert killing.deaths(outcome) == 3
    assert killing.result(tmp_path)["counts"] == [EPOCHS]
