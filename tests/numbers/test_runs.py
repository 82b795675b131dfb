"""Poison, from the command line to the verdict: what is said, what is done, and what is left in the record."""

from __future__ import annotations

import pytest

from .. import stage

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


def run(folder, kind, *options):
    return stage.run(folder, stage.victim("poisoned_fit.py", kind), ["--no-restart", *options])


def found(outcome):
    return [finding["code"] for finding in outcome.events("finding")]


@pytest.mark.parametrize("kind", ["one", "one-of-eight"])
def test_the_sample_is_named_once_and_the_training_goes_on(tmp_path, kind):
    outcome = run(tmp_path, kind)
    assert outcome.status == 0 and "epochs 3" in outcome.stdout and "finite True True" in outcome.stdout
    said = [line for line in outcome.stderr.splitlines() if line.startswith("keepfit:")]
    assert len(said) == 2, outcome.stderr
    assert said[0] == "keepfit: x holds nan in 1 sample (first: sample 119, feature 3)"
    assert said[1].startswith("keepfit: epoch 1, batch ") and said[1].endswith("sample 119: feature 3 of x is nan")
    (report,) = [r for r in outcome.events("report") if r["kind"] == "numbers-poison"]
    assert report["samples"] == [[119]] and report["saved"] == 1
    assert outcome.why()["cause"] == "finished"
    played = stage.keepfit_json(tmp_path, "replay")
    assert played["weights"] and played["found"]["phase"] == "input" and played["found"]["rows"] == report["rows"]


def test_stop_ends_cleanly_and_why_names_the_culprit(tmp_path):
    outcome = run(tmp_path, "one", "--on-nan", "stop", "--keep-batch", "0")
    verdict = outcome.why()
    assert outcome.status == 0 and "epochs 1" in outcome.stdout
    assert (verdict["cause"], verdict["confidence"], verdict["outcome"]) == ("nonfinite_input", "certain", "died")
    assert "sample 119" in verdict["summary"] and not (outcome.directory / "batches").exists()
    assert any((outcome.directory / "checkpoints").iterdir()), "the saved states stay"


def test_ten_in_a_row_go_back_to_a_saved_state_with_half_the_rate(tmp_path):
    outcome = run(tmp_path, "row")
    assert outcome.status == 0 and "epochs 3 rate 0.0005" in outcome.stdout and "finite True" in outcome.stdout
    (back,) = [r for r in outcome.events("report") if r["kind"] == "numbers-rollback"]
    assert back["row"] == 10 and back["rate"] == pytest.approx(0.0005)
    assert "KF205" in found(outcome)


def test_a_label_is_named_before_the_operation_fails(tmp_path):
    outcome = run(tmp_path, "label")
    assert "keepfit: sample 333 has label 3; the model has 3 outputs, for labels 0 to 2" in outcome.stderr
    verdict = outcome.why()
    assert (verdict["cause"], verdict["code"]) == ("bad_label", "KF301")


def test_data_that_is_nothing_but_poison(tmp_path):
    """It is ended after a while, the data named; and an epoch without a single step has no loss, least of all zero."""
    outcome = run(tmp_path, "all")
    verdict = outcome.why()
    assert (verdict["cause"], verdict["code"]) == ("nonfinite_input", "KF201"), outcome.stderr
    assert "every sample of the batch: feature 0 of x is nan" in verdict["summary"]
    assert "loss [nan" in outcome.stdout and "finite True False" in outcome.stdout


@pytest.mark.parametrize(("kind", "where"), [("class", "first epoch"), ("class-of-arrays", "training data")])
def test_a_class_that_never_comes(runs, kind, where):
    outcome = stage.run(runs, stage.victim("poisoned_fit.py", kind))
    told = [finding["message"] for finding in outcome.events("finding") if finding["code"] == "KF308"]
    assert told == [f"1 of 3 classes have no sample in the {where} (1)"]


@pytest.mark.parametrize(("kind", "code"), [("logits", "KF306"), ("dead", "KF213"), ("vanishing", "KF212")])
def test_what_is_wrong_is_said(tmp_path, kind, code):
    outcome = run(tmp_path, kind)
    assert outcome.status == 0 and code in found(outcome), outcome.stderr


def test_a_damaged_picture_is_named_or_left_out(tmp_path):
    stopped = run(tmp_path / "a", "picture")
    verdict = stopped.why()
    assert verdict["cause"] == "corrupt_data" and "/037.jpg is damaged" in verdict["summary"]
    skipped = run(tmp_path / "b", "picture", "--on-bad-sample", "skip")
    assert skipped.status == 0 and "epochs 2" in skipped.stdout
    told = [finding["message"] for finding in skipped.events("finding") if finding["code"] == "KF312"]
    assert len(told) == 1 and told[0].startswith("1 of 64 files cannot be read and are left out (")
    assert told[0].endswith("/037.jpg)")


HEALTHY = [
    "activation_sigmoid", "large_rate_that_converges", "pictures", "words_with_sparse_gradients", "learnt_by_heart",
    "half_precision", "generator_and_critic",
]  # fmt: skip


def test_healthy_trainings_stay_quiet(tmp_path):
    """A few of those that `bench healthy` trains."""
    outcome = stage.finish(stage.start(tmp_path, stage.victim("healthy_runs.py", *HEALTHY)), tmp_path)
    assert outcome.status == 0, outcome.stderr[-2000:]
    assert outcome.stdout.count("trained ") == len(HEALTHY)
    assert found(outcome) == [], outcome.stderr
    assert len([r for r in outcome.events("report") if r["kind"] == "health"]) > 2 * len(HEALTHY)
    assert not [event for event in outcome.events("agent") if event.get("state") == "failed"]
