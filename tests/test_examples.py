"""The before/after examples do what their README says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from . import stage

pytestmark = pytest.mark.tensorflow
EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


def plain(folder: Path, name: str, *words: str):
    return stage.beside(folder, [sys.executable, str(EXAMPLES / name), *words])


def test_s03_accumulation(tmp_path):
    both = [plain(tmp_path / when, f"s03_accumulation_{when}.py") for when in ("before", "after")]
    before, after = (wait() for wait in both)
    assert before.splitlines()[0] != after.splitlines()[0]
    assert float(after.split()[-1]) < 1e-6


@pytest.mark.cgroup
def test_s20_custom_loop(tmp_path, needs):
    needs("cgroup")
    script = str(EXAMPLES / "s20_custom_loop_{}.py")
    before = stage.run(tmp_path / "a", [sys.executable, script.format("before")], ["--memory", "900MiB"])
    assert before.status == 137 and before.why()["cause"] == "memory_budget"
    patch = before.why()["remedies"][0]["how"].strip().splitlines()
    assert patch[1].endswith("return tf.reduce_sum(losses * valid) / tf.reduce_sum(valid)")
    assert patch[2].endswith("loss, gradients = keepfit.accumulate(loss_of, model.trainable_variables, tokens)")
    after = stage.run(tmp_path / "b", [sys.executable, script.format("after")], ["--memory", "900MiB"])
    assert after.status == 0, after.stderr
    assert len(re.findall(r"^loss", after.stdout, re.MULTILINE)) == 3


@pytest.mark.cgroup
def test_five_deaths(tmp_path, needs):
    needs("cgroup")
    calm = plain(tmp_path / "calm", "five_deaths.py", "--calm")
    options = ["--memory", "1GiB", "--restarts", "5", "--hang-after", "5"]
    outcome = stage.run(
        tmp_path / "runs", [sys.executable, str(EXAMPLES / "five_deaths.py")], options, TMPDIR=str(tmp_path)
    )
    assert outcome.status == 0, outcome.stderr
    assert outcome.stdout == calm()
    causes = [attempt["cause"] for attempt in outcome.why()["attempts"]]
    assert causes == ["killed_unknown", "segfault", "hang", "terminated", "memory_budget", "finished"]


def test_one_bad_row(tmp_path):
    """It is named, and the training ends as it does without that row, but for the noise of one batch."""
    script = str(EXAMPLES / "one_bad_row.py")
    without = plain(tmp_path / "without", "one_bad_row.py", "--without")
    outcome = stage.run(tmp_path / "runs", [sys.executable, script])
    assert outcome.status == 0, outcome.stderr
    assert "sample 81234: feature 3 of x is nan" in outcome.stderr
    with_it, alone = (float(text.split()[-1]) for text in (outcome.stdout, without()))
    assert abs(with_it - alone) <= 0.02 and alone > 0.6
