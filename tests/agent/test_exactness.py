"""Split is the same as whole: gradients, optimizer state, metrics, history, predictions."""

from __future__ import annotations

import os

import pytest

from . import cases, splitting
from .splitting import BATCH, Result, Trained

pytestmark = pytest.mark.tensorflow

LONG = bool(os.environ.get("KEEPFIT_TEST_LONG"))
TOLERANCE = 1e-5
AFTER_ADAM = 5e-5  # where Adam has divided a difference by the root of a small number, six times over
PREDICTED = [
    cases.dictionaries,
    cases.own_metrics,
    cases.masked_sequence,
    cases.layer_with_a_counter,
    cases.compiled_by_xla,
    cases.eagerly,
]


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


def assert_same(whole: Result, split: Result, what: str) -> None:
    for name in ("weights", "optimizer", "history"):
        difference, where = splitting.largest_difference(getattr(whole, name), getattr(split, name))
        allowed = AFTER_ADAM if name == "weights" or "average" in where else TOLERANCE
        assert difference <= allowed, f"{what}: {name}: {where} differs by {difference:.2g}"


@pytest.mark.parametrize("case", cases.EXACT if LONG else cases.SHORT, ids=lambda case: case.__name__)
def test_split_equals_whole(case):
    """After two epochs of three steps, the last of them ragged; in 2, 3 and 7 parts, with one trace for all."""
    whole = Trained(case).fit()
    split = Trained(case, rows=-(-BATCH // 2))
    results = {2: split.fit()}
    assert split.counsel.told("splitting"), split.counsel.asked
    traced = split.guard.split_of(split.model, "train").traces
    for parts in (3, 7):
        results[parts] = split.fit_again(-(-BATCH // parts))
    for parts, result in results.items():
        assert_same(whole, result, f"{parts} parts")
    eager = split.model.run_eagerly
    assert eager or split.guard.split_of(split.model, "train").traces == traced


@pytest.mark.parametrize("case", PREDICTED, ids=lambda case: case.__name__)
def test_evaluate_and_predict_are_split_too(case):
    import tensorflow as tf

    whole, split = Trained(case), Trained(case, rows=4)
    expected = []
    for trained in (whole, split):
        trained.heart.counsel = trained.guard.counsel = trained.counsel
        trained.fit(epochs=1)
        expected.append((trained.evaluate(), tf.nest.flatten(trained.predict())))
        assert not trained.heart.failures, trained.heart.failures
    (numbers, predictions), (split_numbers, split_predictions) = expected
    assert split_numbers == pytest.approx(numbers, rel=TOLERANCE, abs=TOLERANCE)
    for one, other in zip(predictions, split_predictions, strict=True):
        assert one.shape == other.shape
        assert other == pytest.approx(one, rel=1e-4, abs=1e-5)
    model = split.model
    assert all(split.guard.split_of(model, step) is not None for step in ("train", "test", "predict"))
