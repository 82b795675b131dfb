"""Completion scripts, in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from keepfit.cli import VERBS
from keepfit.cli.completions import SHELLS

from .test_verbs import keepfit


@pytest.fixture
def script(runs, tmp_path):
    def write(shell):
        done = keepfit(runs, "completions", shell)
        assert done.returncode == 0, done.stderr
        path = tmp_path / f"keepfit.{shell}"
        path.write_text(done.stdout)
        return path

    return write


def offered(script, *words):
    """What bash offers for the last of these words."""
    line = " ".join(["keepfit", *words])
    code = f'. "$1"; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _shtab_keepfit; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", code, "bash", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_bash_offers_verbs_options_choices_and_files(script, tmp_path, monkeypatch):
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    bash = script("bash")
    assert offered(bash, '""') == set(VERBS)
    assert offered(bash, "run", "--mem") == {"--memory"}
    assert offered(bash, "runs", "--state", '""') == {"running", "finished", "died", "unknown"}
    assert offered(bash, "run", "--", "tra") == {"train.py"}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_can_read_it(script, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", script(shell)], check=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_is_in_it(script, shell):
    text = script(shell).read_text()
    assert all(verb in text for verb in VERBS), "made anew when the package is built: pip install -e ."


def test_help_of_check_names_every_way_to_fix(runs):
    from keepfit.check import fix

    shown = keepfit(runs, "check", "--help").stdout
    assert all(way in shown for way in fix.HOW)
