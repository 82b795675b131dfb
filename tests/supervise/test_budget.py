"""Real trainings in real budgets: they finish with the same results, or say why not."""

from __future__ import annotations

import re

import pytest

from .. import stage

pytestmark = [pytest.mark.tensorflow, pytest.mark.cgroup]

TRAINING = ("512", "2", "2")  # batch, steps, epochs: needs about 750 MiB whole


@pytest.fixture(autouse=True)
def real_things(needs):
    needs("tensorflow", "cgroup")


def result(outcome: stage.Outcome) -> list[float]:
    found = re.search(r"^result (.*)$", outcome.stdout, re.MULTILINE)
    assert found, outcome.stdout + outcome.stderr
    return [float(word) for word in found[1].split()]


def same(outcome: stage.Outcome, other: stage.Outcome) -> bool:
    """But for the order in which numbers are summed: the whole batch alone, with and without oneDNN's kernels, comes
    out 5e-6 apart, and so do its parts. Digits are not compared: one of these sums lies at 59.74715."""
    return result(outcome) == pytest.approx(result(other), rel=0, abs=2e-5)


def decided(outcome: stage.Outcome) -> list[dict[str, object]]:
    return [event for event in outcome.events("splitting") if not event["trial"]]


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory):
    """The same script without keepfit's hand in it."""
    if stage.why_no_tensorflow():
        return None
    return stage.run(
        tmp_path_factory.mktemp("runs"), stage.victim("trains_in_budget.py", *TRAINING), KEEPFIT_DISABLE="1"
    )


def test_a_batch_that_does_not_fit_finishes_with_the_same_results(tmp_path, unguarded):
    command = stage.victim("trains_in_budget.py", *TRAINING)
    first = stage.run(tmp_path, command, ["--memory", "560MiB"])
    assert first.status == 0 and same(first, unguarded)
    assert "would need about" in first.stderr and "with the results of the whole batch" in first.stderr
    assert re.search(r"keepfit: finished; batch 512 ran as \d+ micro-batches of \d+; peak .* of 560 MiB", first.stderr)
    chosen = decided(first)[-1]
    assert chosen["how"] == "measured" and 1 < chosen["rows"] < 512
    assert len([e for e in first.events("splitting") if e["trial"] and e["how"] == "measured"]) == 2
    assert not first.events("danger")
    # The next run remembers: nothing is measured again.
    second = stage.run(tmp_path, command, ["--memory", "560MiB"])
    assert second.status == 0 and same(second, unguarded)
    assert decided(second)[0]["how"] == "remembered"
    assert not [e for e in second.events("splitting") if e["trial"]]


def test_a_batch_that_fits_is_left_alone(tmp_path, unguarded):
    outcome = stage.run(tmp_path, stage.victim("trains_in_budget.py", *TRAINING))
    assert outcome.status == 0 and result(outcome) == result(unguarded) and not outcome.said
    assert [event["how"] for event in decided(outcome)] == ["comfortable"]


def test_a_plan_that_is_applied_is_begun_with(tmp_path, unguarded):
    outcome = stage.run(tmp_path, stage.victim("trains_in_budget.py", *TRAINING), ["--apply", "--memory", "560MiB"])
    assert outcome.status == 0 and same(outcome, unguarded)
    assert re.search(
        r"keepfit: planned: batch 512 needs about .* of 560 MiB; micro-batches of about \d+", outcome.stderr
    )
    assert decided(outcome)[0]["how"] == "remembered"
    assert not [event for event in outcome.events("splitting") if event["trial"]]
    assert not outcome.events("danger")


def test_late_growth_ends_in_a_restart_with_less(tmp_path):
    """Memory that something else takes in the second epoch: the next attempt has a smaller micro-batch."""
    outcome = stage.run(
        tmp_path / "runs", stage.victim("grows_late.py", str(tmp_path / "grown")), ["--memory", "700MiB"]
    )
    verdict = outcome.why()
    assert outcome.status == 0, outcome.stderr
    first, second = verdict["attempts"]
    assert first["cause"] == "memory_budget" and first["changed"] is None
    assert second["cause"] == "finished"
    assert re.fullmatch(r"micro-batch \d+ → \d+, resumed at epoch \d+, batch \d+", second["changed"])
    before, after = (int(word) for word in re.findall(r"\d+", second["changed"])[:2])
    assert 1 <= after <= before // 2
    assert "again, micro-batch" in outcome.stderr


def test_no_restart_means_none(tmp_path):
    command = stage.victim("grows_late.py", str(tmp_path / "grown"))
    outcome = stage.run(tmp_path / "runs", command, ["--memory", "700MiB", "--no-restart"])
    verdict = outcome.why()
    assert outcome.status == 137 and len(verdict["attempts"]) == 1 and verdict["cause"] == "memory_budget"


def test_a_model_that_cannot_fit_is_told_with_prices(tmp_path):
    outcome = stage.run(tmp_path, stage.victim("model_too_large.py"), ["--memory", "900MiB"])
    verdict = outcome.why()
    assert verdict["cause"] == "model_too_large" and outcome.status == 137
    changed = [attempt["changed"] for attempt in verdict["attempts"]]
    assert len(changed) <= 3 and len(set(changed)) == len(changed)  # none that changes nothing
    priced = {" ".join(remedy["title"].split()[:2]): remedy["saves_bytes"] for remedy in verdict["remedies"]}
    assert priced["freeze half"] and priced["a smaller"]
    assert priced["a lighter"] is priced["LoRA: optimizer"] is None  # it died before its Adam was built


def test_an_unmodified_loop_is_shown_the_patch_on_its_own_lines(tmp_path):
    outcome = stage.run(tmp_path, stage.victim("loop_too_large.py"), ["--memory", "600MiB"])
    verdict = outcome.why()
    assert verdict["cause"] == "memory_budget" and verdict["because"] == ["batch_too_large"]
    assert len(verdict["attempts"]) == 1  # nothing could be changed, so nothing was tried again
    patch = verdict["remedies"][0]["how"].strip().splitlines()
    assert patch == [
        "loop_too_large.py:16: def loss_of(images, targets):",
        "loop_too_large.py:18:     return tf.reduce_mean((predictions - targets) ** 2)",
        "loop_too_large.py:19: "
        "loss, gradients = keepfit.accumulate(loss_of, model.trainable_variables, images, targets)",
    ]
    assert patch[0] in outcome.stderr


def test_the_same_loop_with_the_patch_finishes(tmp_path):
    outcome = stage.run(tmp_path, stage.victim("loop_patched.py"), ["--memory", "600MiB"])
    assert outcome.status == 0, outcome.stderr
    assert "done" in outcome.stdout
    assert 1 <= decided(outcome)[-1]["rows"] < 1024


def test_a_budget_below_the_framework_is_refused_with_the_number(tmp_path):
    outcome = stage.run(tmp_path, stage.victim("trains_in_budget.py", *TRAINING), ["--memory", "100MiB"])
    assert outcome.status == 64
    assert re.search(r"a budget of 100 MiB cannot hold the framework, which needs \d+ MiB", outcome.stderr)


def test_the_pipelines_budget_comes_from_the_limit(tmp_path):
    outcome = stage.run(tmp_path, stage.victim("shows_pipeline_budget.py"), ["--memory", "600MiB"])
    own, users = (int(line.split()[1]) for line in outcome.stdout.splitlines() if line.startswith("budget"))
    assert 64 << 20 <= own <= 300 << 20
    assert users == 12345678


def test_legacy_keras_is_recorded_and_says_that_it_is_not_split(tmp_path):
    pytest.importorskip("tf_keras", reason="tf_keras is not installed")
    outcome = stage.run(tmp_path, stage.victim("legacy_fit.py"))
    assert outcome.status == 0, outcome.stderr
    assert [finding["code"] for finding in outcome.events("finding")] == ["KF126"]
    assert outcome.why()["attempts"][0]["last_step"] is not None


def test_a_crash_with_memory_to_spare_is_gone_past_with_the_same_micro_batch(tmp_path):
    outcome = stage.run(tmp_path, stage.victim("trains_and_aborts.py"), ["--memory", "2GiB", "--restarts", "1"])
    verdict = outcome.why()
    assert verdict["cause"] == "abort" and len(verdict["attempts"]) == 2
    assert all(attempt["changed"].startswith("resumed at") for attempt in verdict["attempts"][1:])
