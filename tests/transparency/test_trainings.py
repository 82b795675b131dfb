"""Trainings: what goes wrong in them is shown as it is plainly. (That their results are the same: tests/resume.)"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import keepfit

from .. import stage

pytestmark = pytest.mark.skipif(bool(stage.why_no_tensorflow()), reason=str(stage.why_no_tensorflow()))

PLACES = (
    "callback", "layer", "train_step", "metric", "loss", "generator", "shape", "predict", "evaluate", "arguments",
    "compile", "add_weight", "functional", "save", "tape", "map", "eager", "apply",
)  # fmt: skip
PROFILE = "import cProfile, pstats, runpy, sys, io\np = cProfile.Profile()\nsys.argv = sys.argv[1:]\np.enable()\n"
PROFILE += "runpy.run_path(sys.argv[0])\np.disable()\n"
OURS = str(Path(keepfit.__file__).parent)  # and not the word: a clone may lie in a folder of that name
PROFILE += f"print(sorted(str(k) for k in pstats.Stats(p).stats if {OURS!r} in str(k) or '_keepfit' in str(k)))\n"


def plainly(command: list[str], folder) -> subprocess.CompletedProcess[str]:
    environment = stage.clean_environment(folder, PYTHONUNBUFFERED="1")
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_errors_are_shown_as_they_are_plainly(runs, tmp_path):
    command = stage.victim("raises_everywhere.py", *PLACES)
    plain, kept = plainly(command, tmp_path), stage.run(runs, command)
    assert kept.status == plain.returncode == 0, kept.stderr
    told = {text.split("\n", 1)[0]: text for text in split(plain.stdout)}
    assert {text.split("\n", 1)[0]: text for text in split(kept.stdout)} == told and len(told) >= len(PLACES) - 1


def split(text: str) -> list[str]:
    """One piece for each place: it begins with its name."""
    pieces: list[str] = []
    for line in text.splitlines():
        if line in PLACES or line.startswith("("):
            pieces.append(line)
        elif pieces:
            pieces[-1] += "\n" + line
    return pieces


def test_ctrl_c_shows_nothing_of_us(runs, tmp_path):
    command = stage.victim("raises_everywhere.py", "Ctrl-C")
    plain, kept = plainly(command, tmp_path), stage.run(runs, command)
    shown = [line for line in kept.stdout.splitlines() if line.startswith("  File")]
    assert shown and "KeyboardInterrupt" in kept.stdout and OURS not in "".join(shown)
    # It takes effect between two steps, behind the callback that was interrupted plainly.
    assert shown == [line for line in plain.stdout.splitlines() if line.startswith("  File")][: len(shown)]


def test_a_profile_shows_the_training_alone(runs):
    outcome = stage.run(runs, [sys.executable, "-c", PROFILE, *stage.victim("healthy_fit.py")[1:]])
    assert outcome.status == 0 and outcome.stdout.splitlines()[-1] == "[]", outcome.stderr
    assert "a profiler is on" in outcome.stderr
    assert [finding["code"] for finding in outcome.events("finding")] == ["KF514"]
