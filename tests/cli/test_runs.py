"""`runs`: which are shown, and which go."""

from __future__ import annotations

import json
import os

import pytest

from keepfit.blackbox.rundir import RunDirectory

from .. import stage
from ..supervise.terminals import Terminal
from .test_verbs import keepfit

DAY = 86400.0


@pytest.fixture
def many(runs) -> list[str]:
    """Twenty-five runs, the oldest of them 25 days old; every fifth was killed."""
    import time

    names = []
    for days in range(25, 0, -1):
        run = RunDirectory.create(runs)
        began, died = time.time() - days * DAY, days % 5 == 0
        outcome, cause = ("died", "cgroup_oom") if died else ("finished", "finished")
        (run.path / "journal.jsonl").touch(mode=0o600)
        for event in (
            {"event": "run", "t": began, "name": f"day-{days}", "argv": ["python", "train.py"], "cwd": "/"},
            {
                "event": "verdict",
                "t": began,
                "outcome": outcome,
                "cause": cause,
                "code": "KF1",
                "confidence": "certain",
            },
            {"event": "end", "t": began + 60},
        ):
            with open(run.path / "journal.jsonl", "a") as file:
                file.write(json.dumps(event) + "\n")
        names.append(f"day-{days}")
    return names


def listed(runs, *words):
    done = keepfit(runs, "runs", "--json", *words)
    assert done.returncode == 0, done.stderr
    return [row["name"] for row in json.loads(done.stdout)["runs"]]


def test_people_see_the_last_twenty_and_programs_all(runs, many):
    done = keepfit(runs, "runs")
    assert len(done.stdout.splitlines()) == 21 and "the last 20 of 25 runs; keepfit runs --all" in done.stderr
    assert len(keepfit(runs, "runs", "--all").stdout.splitlines()) == 26
    assert listed(runs) == many and all(" KiB " in line for line in done.stdout.splitlines()[1:])


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--state", "died"], 5),
        (["--cause", "cgroup_oom"], 5),
        (["--since", "10d"], 9),
        (["--since", "10d", "--state", "died"], 1),
        (["--cause", "hang"], 0),
        (["--since", "2020-01-01"], 25),
    ],
)
def test_filters(runs, many, words, count):
    assert len(listed(runs, *words)) == count


def test_removing_asks_first(runs, many):
    done = keepfit(runs, "runs", "--remove-older", "20d")
    assert done.returncode == 64 and "--yes, was expected; nothing was removed" in done.stderr
    assert listed(runs) == many


def test_removing_names_what_goes(runs, many):
    done = keepfit(runs, "runs", "--remove-older", "20d", "--yes")
    assert done.returncode == 0 and "removed: 6 runs, " in done.stderr and done.stderr.count("train.py") == 6
    assert listed(runs) == many[6:]
    done = keepfit(runs, "runs", "--remove", "day-3", "day-4", "--yes", "--json")
    assert [row["name"] for row in json.loads(done.stdout)["removed"]] == ["day-3", "day-4"]
    assert "day-3" not in listed(runs)


def test_a_terminal_is_asked(runs, many):
    for keys, left in ((b"n\n", 25), (b"y\n", 24)):
        terminal = Terminal(["runs", "--remove", "day-9"], stage.clean_environment(runs))
        terminal.wait_for(b"[y/N] ")
        terminal.type(keys)
        terminal.until_closed()
        os.waitpid(terminal.pid, 0)
        assert len(listed(runs)) == left


def test_nothing_outside_goes(runs, many, tmp_path):
    """Neither what a record links to, nor what a name points at."""
    (outside := tmp_path / "photos").mkdir()
    (outside / "2024.jpg").write_text("mine")
    run = next(path for path in runs.iterdir() if path.is_dir())
    (run / "checkpoints").symlink_to(outside)
    for word in ("../photos", str(outside), "photos"):
        assert keepfit(runs, "runs", "--remove", word, "--yes").returncode == 64
    assert keepfit(runs, "runs", "--remove-older", "0s", "--yes").returncode == 0
    assert (outside / "2024.jpg").read_text() == "mine" and listed(runs) == []


def test_one_that_lives_stays(runs, many):
    process = stage.start(runs, ["bash", "-c", "echo ready; read -r line < /dev/zero"], ["--name", "alive"])
    stage.wait_for_output(process, b"ready\n")
    try:
        done = keepfit(runs, "runs", "--remove", "day-2", "alive", "--yes")
        assert done.returncode == 64 and "is in use; nothing was removed" in done.stderr
        done = keepfit(runs, "runs", "--remove-older", "0s", "--yes")
        assert done.returncode == 0 and "is in use, and stays" in done.stderr and listed(runs) == ["alive"]
    finally:
        process.terminate()
        process.communicate(timeout=stage.PATIENCE)
