"""A NaN is the script's to decide about: its callbacks see it, and what they do is what happens."""

from __future__ import annotations

import pytest

from .. import stage

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


def run(folder, *kinds, options=(), **more):
    return stage.run(folder, stage.victim("decides_on_nan.py", *kinds), ["--no-restart", *options], **more)


def told(outcome, word):
    return [line.split(" ", 1)[1] for line in outcome.stdout.splitlines() if line.startswith(word + " ")]


def test_every_callback_sees_the_batch_as_it_is_and_the_rest_is_as_without_it(tmp_path):
    outcome = run(tmp_path, "see", "without")
    with_it, without = told(outcome, "seen")
    assert with_it.count("nan") == 2 and with_it.split(", ")[2] == "nan", "once in each epoch"
    assert with_it.replace(", nan", "") == without
    for word in ("history", "weights"):
        with_it, without = told(outcome, word)
        assert with_it == without
    assert outcome.why()["outcome"] == "finished"


def test_the_progress_bar_is_spoilt_by_nothing(tmp_path):
    outcome = run(tmp_path, "see", VERBOSE="1")
    bars = [line for line in outcome.stdout.replace("\r", "\n").splitlines() if "loss:" in line]
    assert bars and not any("nan" in line for line in bars)


@pytest.mark.parametrize("kind", ["stop", "own"])
def test_who_sets_stop_training_has_decided(tmp_path, kind):
    outcome = run(tmp_path, kind)
    (seen,), (history,) = told(outcome, "seen"), told(outcome, "history")
    assert outcome.status == 0 and len(seen.split(", ")) == 3 and seen.endswith("nan]")
    assert len(history.split(", ")) == 1 and "nan" not in history and "nan" not in told(outcome, "weights")[0]
    verdict = outcome.why()
    assert (verdict["outcome"], verdict["cause"], verdict["confidence"]) == ("died", "nonfinite_input", "certain")
    assert "ended by the script at epoch 1, batch 3: sample 21: feature 3 of x is nan" in verdict["summary"]


def test_who_raises_has_decided(tmp_path):
    outcome = run(tmp_path, "raise")
    assert outcome.status == 1 and "RuntimeError: NaN or Inf loss encountered at batch 2." in outcome.stderr
    verdict = outcome.why()
    assert (verdict["cause"], verdict["where"]["step"]) == ("nonfinite_input", 2)
    assert "sample 21" in verdict["summary"]


def test_what_trained_on_was_not_ended(tmp_path):
    """As in a search over settings: one training ends by its NaN, and the next one goes well."""
    outcome = run(tmp_path, "stop", "healthy")
    assert len(told(outcome, "seen")) == 2 and outcome.why()["outcome"] == "finished"


def test_a_loop_of_its_own_is_told_and_the_next_training_is_not(tmp_path):
    outcome = run(tmp_path, "batches", "stop-healthy")
    (returned,), (seen,) = told(outcome, "returned"), told(outcome, "seen")
    assert [loss.strip("[]") == "nan" for loss in returned.split(", ")] == [False, False, True] + 5 * [False]
    assert len(seen.split(", ")) == 16 and "nan" not in seen


@pytest.mark.parametrize("word", ["skip", "rollback"])
def test_what_is_asked_for_hides_it_and_says_so(tmp_path, word):
    outcome = run(tmp_path, "stop", options=("--on-nan", word))
    (seen,) = told(outcome, "seen")
    assert "nan" not in seen and len(seen.split(", ")) == 16
    assert f"callbacks are not told (--on-nan {word})" in outcome.stderr


def test_on_several_devices_the_gate_stands_aside_and_says_so(tmp_path):
    command = stage.victim("mirrored.py")
    plain = stage.beside(tmp_path / "plain", command)()
    outcome = stage.run(tmp_path / "runs", command)
    assert outcome.status == 0 and told(outcome, "loss") == [plain.strip().split(" ", 1)[1]], outcome.stderr
    (line,) = [line for line in outcome.stderr.splitlines() if "does not look at its numbers" in line]
    assert line == "keepfit: the training runs on 2 devices at once: keepfit does not look at its numbers there"
