"""Getting in without being installed, and leaving no trace: boot, chaining, workers, other interpreters."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .. import stage


def base_python() -> str:
    """An interpreter in which keepfit is not installed: the one this environment was made from."""
    path = os.path.join(sys.base_exec_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    found = subprocess.run([path, "-c", "import keepfit"], capture_output=True, check=False)
    if found.returncode == 0:
        pytest.skip("keepfit is installed in the base interpreter too")
    return path


def ready(outcome: stage.Outcome) -> list[dict]:
    return [event for event in outcome.events("agent") if event["state"] == "ready"]


def test_into_another_environment_without_entering_its_path(runs):
    code = (
        "import sys\n"
        "print([entry for entry in sys.path if 'keepfit' in entry])\n"
        "print('keepfit' in sys.modules)\n"
        "try:\n    import keepfit\nexcept ImportError: print('not installed here')\n"
    )
    outcome = stage.run(runs, [base_python(), "-c", code])
    assert outcome.stdout.splitlines() == ["[]", "False", "not installed here"]
    assert len(ready(outcome)) == 1


def test_an_existing_sitecustomize_runs_as_if_we_were_not_there(runs, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.marker = 'theirs ran'\n")
    code = "import sys, sitecustomize; print(sys.marker, sitecustomize.__file__)"
    outcome = stage.run(runs, [sys.executable, "-c", code], PYTHONPATH=str(tmp_path))
    assert outcome.stdout.strip() == f"theirs ran {tmp_path / 'sitecustomize.py'}"
    assert len(ready(outcome)) == 1


def test_a_broken_sitecustomize_is_as_broken_as_without_us(runs, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs is broken')\n")
    plain = subprocess.run(
        [sys.executable, "-c", "print(1)"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=False,
    )
    outcome = stage.run(runs, [sys.executable, "-c", "print(1)"], PYTHONPATH=str(tmp_path))
    assert (outcome.status, outcome.stdout) == (plain.returncode, plain.stdout)
    assert "ValueError: theirs is broken" in outcome.stderr and "ValueError: theirs is broken" in plain.stderr


def test_without_any_sitecustomize_there_is_none(runs):
    plain = subprocess.run([base_python(), "-c", "import sitecustomize"], capture_output=True, check=False)
    outcome = stage.run(runs, [base_python(), "-c", "import sitecustomize"])
    assert outcome.status == plain.returncode


@pytest.mark.parametrize("flag", ["-I", "-E", "-S", "-sE"])
def test_an_isolated_interpreter_is_recorded_without_the_agent_and_that_is_said(runs, flag):
    outcome = stage.run(runs, [sys.executable, flag, "-c", "import sys; sys.exit(2)"])
    assert outcome.status == 2 and ready(outcome) == []
    assert any("-I, -E or -S" in word for word in outcome.why()["lacked"])


def test_switched_off(runs):
    outcome = stage.run(
        runs, [sys.executable, "-c", "import sys; print('_keepfit' in sys.modules); sys.exit(1)"], KEEPFIT_DISABLE="1"
    )
    assert outcome.stdout.strip() == "False" and ready(outcome) == []
    assert any("KEEPFIT_DISABLE" in word for word in outcome.why()["lacked"])


def test_silent_without_a_framework(runs):
    code = "import sys; print(sorted(name for name in sys.modules if name.startswith('_keepfit')))"
    outcome = stage.run(runs, [sys.executable, "-c", code])
    assert (outcome.stdout, outcome.stderr) == ("[]\n", "")


def test_workers_are_left_alone(runs, tmp_path):
    script = tmp_path / "spawns.py"
    script.write_text(
        "import multiprocessing as mp, os\n"
        "def work(n): return os.getpid()\n"
        "if __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(2) as pool: pool.map(work, range(4))\n"
        "    if os.fork() == 0: raise SystemExit(0)\n"
        "    os.wait()\n"
    )
    outcome = stage.run(runs, [sys.executable, str(script)])
    assert outcome.status == 0 and len(ready(outcome)) == 1
    ended = [event for event in outcome.events("agent") if event["state"] == "ended"]
    assert len(ended) == 1, "a forked child says nothing at its end"


def test_a_pulse_that_is_gone_costs_only_the_heartbeats(runs, needs, tmp_path):
    needs("tensorflow")
    shell = 'KEEPFIT_PULSE=/proc/1/fd/9999 exec "$@"'
    outcome = stage.run(runs, ["sh", "-c", shell, "sh", *stage.victim("healthy_fit.py")])
    assert outcome.status == 0
    awake = [event for event in outcome.events("agent") if event["state"] == "awake"]
    assert awake and not any(event["beats"] for event in awake)


def test_a_record_that_is_gone_costs_nothing(runs):
    shell = 'KEEPFIT_RECORD=/nowhere/at/all exec "$@"'
    outcome = stage.run(runs, ["sh", "-c", shell, "sh", *stage.victim("healthy.py")])
    assert (outcome.status, outcome.stdout) == (0, "all is well\n")


def other_interpreters() -> list[str]:
    found = [shutil.which(f"python{version}") for version in ("2.7", "3.6", "3.8", "3.10", "3.12", "3.13")]
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    with contextlib.suppress(PermissionError):  # another user's
        found += [str(path) for path in sorted(Path(root, "versions").glob("*/bin/python"))]
    return sorted({path for path in found if path and "shims" not in path})


@pytest.mark.parametrize("python", other_interpreters() or [None])
def test_other_interpreters_run_undisturbed(runs, python):
    if python is None:
        pytest.skip("no other interpreter is installed here")
    outcome = stage.run(runs, [python, "-c", "import sys; print(sys.version_info[:2] > (2, 6))"])
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "True\n", "")
    modern = subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 8))"], check=False)
    assert len(ready(outcome)) == (1 if modern.returncode == 0 else 0)


@pytest.mark.tensorflow
@pytest.mark.parametrize("line", ["import tensorflow, keras", "import keras, tensorflow"])
def test_keras_is_met_in_whatever_order(tmp_path, needs, line):
    """TensorFlow looks for a keras while it is imported itself, and takes it later."""
    needs("tensorflow")
    outcome = stage.run(tmp_path, [sys.executable, "-c", line])
    awake = {event["framework"] for event in outcome.events("agent") if event["state"] == "awake"}
    assert awake == {"tensorflow", "keras"}
