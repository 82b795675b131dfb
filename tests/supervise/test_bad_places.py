"""A runs directory that disappears, fills up or belongs to somebody else: the command feels nothing of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .. import stage

SOURCE = Path(stage.__file__).parents[1] / "src"
FLOOD = "head -c 3000000 /dev/zero | tr '\\0' x | fold -w 99; exit 4"


@pytest.fixture
def small(tmp_path):
    """A file system of 600 KiB."""
    if os.getuid():
        pytest.skip("needs root: to mount a small tmpfs")
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"needs to mount a tmpfs: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_it_disappears(runs):
    process = stage.start(runs, ["bash", "-c", "echo ready; read -r -t 0.5 < /dev/zero; seq 3; exit 3"])
    seen = stage.wait_for_output(process, b"ready\n")
    shutil.rmtree(runs)
    outcome = stage.finish(process, runs, seen)
    assert (outcome.status, outcome.stdout) == (3, "ready\n1\n2\n3\n") and "Traceback" not in outcome.stderr


def test_it_fills_up(small):
    runs = small / "runs"
    outcome = stage.run(runs, ["bash", "-c", FLOOD])
    assert outcome.status == 4 and outcome.stdout.count("x") == 3_000_000 and "Traceback" not in outcome.stderr
    assert outcome.why()["cause"] == "exit_nonzero"
    before = stage.keepfit_json(runs, "runs")
    (small / "fill").touch()
    with open(small / "fill", "ab", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(1024))
    outcome = stage.run(runs, ["bash", "-c", "echo hi; exit 5"])
    assert (outcome.status, outcome.stdout) == (5, "hi\n")
    assert "no record of this run will be kept" in outcome.stderr and "No space left on device" in outcome.stderr
    assert stage.keepfit_json(runs, "runs") == before


def is_for_everybody(python: str) -> bool:
    command = [python, "-c", "import sys; assert sys.version_info >= (3, 10); import keepfit.cli"]
    try:
        return not subprocess.run(
            command, user="nobody", env={"PYTHONPATH": str(SOURCE)}, capture_output=True, check=False, cwd="/"
        ).returncode
    except OSError:
        return False


def test_it_belongs_to_another_user(tmp_path):
    """Root's runs, and an ordinary user who is told to use them: for writing and for reading."""
    if os.getuid():
        pytest.skip("needs root: to be another user")
    python = next(filter(is_for_everybody, (sys.executable, "/usr/bin/python3")), None)
    if python is None:
        pytest.skip("needs an interpreter, and a checkout, that other users can reach")
    runs = tmp_path / "runs"
    stage.run(runs, ["false"])
    place = tmp_path
    while place != Path("/tmp") and place != place.parent:
        place.chmod(0o755)
        place = place.parent
    for words, status, said in (
        (["run", "--runs-dir", str(runs), "--", "sh", "-c", "id -un; exit 6"], 6, "no record of this run will be kept"),
        (["why", "--runs-dir", str(runs)], 64, "is not used as a runs directory: it cannot be read"),
        (["runs", "--runs-dir", str(runs), "--remove-older", "0s", "--yes"], 64, "cannot be read"),
    ):
        done = subprocess.run(
            [python, "-m", "keepfit", *words], capture_output=True, text=True, user="nobody", check=False, cwd="/",
            env=stage.clean_environment(runs, TMPDIR="/tmp", PYTHONPATH=str(SOURCE)),
        )  # fmt: skip
        assert done.returncode == status and said in done.stderr, done.stderr
        assert done.stdout == ("nobody\n" if words[0] == "run" else "")
    assert len(stage.keepfit_json(runs, "runs")["runs"]) == 1
