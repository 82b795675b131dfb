"""`--resume`: what is refused says what really differs."""

from __future__ import annotations

import sys

import pytest

from .. import stage


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "other.py"):
        (tmp_path / name).write_text("import sys; sys.exit(3)\n")
    return tmp_path / "train.py"


def resumed(runs, *words):
    return stage.run(runs, [sys.executable, *words], ["--resume", "night"])


@pytest.mark.parametrize(
    ("change", "words", "said"),
    [
        (lambda script: script.write_text("print(1)\n"), ("train.py",), "train.py has changed since"),
        (lambda script: script.unlink(), ("train.py",), "train.py is not there any more"),
        (lambda script: None, ("other.py",), "and this is `"),
        (lambda script: None, ("-m", "package"), "it ran `"),
    ],
    ids=["changed", "gone", "another script", "a module"],
)
def test_the_message_names_what_differs(runs, script, change, words, said):
    stage.run(runs, [sys.executable, "train.py"], ["--name", "night"])
    change(script)
    outcome = resumed(runs, *words)
    assert outcome.status == 64 and said in outcome.stderr and "--force-resume overrides" in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_other_arguments_are_no_difference(runs, script):
    stage.run(runs, [sys.executable, "train.py"], ["--name", "night"])
    assert resumed(runs, "train.py", "--epochs", "5").status == 3
