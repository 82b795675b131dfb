"""A record is data, never an instruction: every verb answers in time, and nothing outside is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepfit import cli
from keepfit.blackbox import index
from keepfit.blackbox.states import Vault

from .. import stage
from .hostile import SPOILT, Place

VERBS = (
    ["why"], ["why", "--json"], ["runs"], ["runs", "--json"], ["checkpoints"], ["checkpoints", "--json"],
    ["replay", "--json"], ["export", "latest", "{out}"],
)  # fmt: skip
ANSWERS = (0, 64)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Iterator[Place]:
    for name in ("KEEPFIT_RUNS", "KEEPFIT_MEMORY"):
        monkeypatch.delenv(name, raising=False)
    yield Place(tmp_path)
    subprocess.run(["rm", "-rf", str(tmp_path)], check=True)  # some are nested too deeply for Python's own


def answer(words: list[str], place: Place) -> int:
    verb, *more = [word.format(out=place.runs.parent / "model.keras") for word in words]
    return cli.main([verb, "--runs-dir", str(place.runs), *more])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("spoilt", SPOILT)
def test_every_verb_answers(place, spoilt, capfd):
    SPOILT[spoilt](place)
    before = place.untouched()
    for words in VERBS:
        status = answer(words, place)
        shown = capfd.readouterr()
        assert status in ANSWERS, (words, shown.err)
        assert "\x1b[2J" not in shown.out + shown.err and "Traceback" not in shown.err, words
        if "--json" in words and status == 0:
            json.loads(shown.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        if status:
            assert len(shown.err.strip().splitlines()) == 1, "what is wrong takes one line"
    assert place.untouched() == before


@pytest.mark.timeout(60)
@pytest.mark.parametrize("spoilt", ["journal.jsonl: a FIFO", "every field is Infinity", "odd entries among the runs"])
def test_one_bad_run_never_hides_the_others(place, spoilt, capfd):
    from .hostile import good_record

    other = good_record(place.runs)
    SPOILT[spoilt](place)
    assert answer(["runs", "--json"], place) == 0
    listed = {row["id"]: row for row in json.loads(capfd.readouterr().out)["runs"]}
    assert listed[other.id]["name"] == "good" and listed[other.id]["cause"] == "killed_unknown"


def test_what_a_record_says_of_a_good_one(place, capfd):
    assert answer(["why", "--json"], place) == 0
    verdict = json.loads(capfd.readouterr().out)
    assert verdict["cause"] == "memory_budget" and verdict["where"]["step"] == 49
    assert answer(["checkpoints", "--json"], place) == 0
    assert [state["good"] for state in json.loads(capfd.readouterr().out)["checkpoints"]] == [True, True]


# --- going on with, or writing to, what is not ours ------------------------------------------------------

RUN = [sys.executable, "-m", "keepfit", "run", "--runs-dir"]


def keepfit(*words: object) -> subprocess.CompletedProcess[str]:
    environment = stage.clean_environment(Path("/nowhere"))
    return subprocess.run(
        [sys.executable, "-m", "keepfit", *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize(
    "spoilt",
    ["stdout: a link to a private file", "ring: a link to a private file", "lock: a FIFO",
     "lock: a link to a private file", "journal.jsonl: a link to a private file",
     "checkpoints: a link to a folder", "stacks: a link to a folder", "odd names among the states"],
)  # fmt: skip
def test_going_on_with_a_hostile_record_writes_and_removes_nothing_outside(place, spoilt):
    SPOILT[spoilt](place)
    before = place.untouched()
    script = "import sys; print('ran')"
    done = keepfit(
        "run", "--runs-dir", place.runs, "--resume", place.run.id, "--force-resume", "--", sys.executable, "-c", script
    )
    assert done.returncode in (0, 64) and "Traceback" not in done.stderr, done.stderr
    assert (done.stdout == "ran\n") == (done.returncode == 0)
    assert place.untouched() == before


def test_saved_states_are_removed_only_where_they_are_states(place):
    odd = place.run.checkpoints / "2024"
    odd.mkdir()
    vault = Vault(place.run.checkpoints)
    vault.thin()
    vault.prune()
    assert odd.exists() and [each.number for each in vault.generations()] == [2]


def test_a_resume_of_which_every_state_is_damaged_is_refused(place):
    for number in (1, 2):
        os.truncate(place.run.checkpoints / f"{number:06d}" / "state.safetensors", 20)
    for words in (["--resume", place.run.id], ["--resume", place.run.id, "--force-resume"]):
        done = keepfit("run", "--runs-dir", place.runs, *words, "--", "echo", "trained from the start")
        assert done.returncode == 64 and done.stdout == ""
        assert "all of its 2 saved states are damaged" in done.stderr


def test_auto_refuses_too_and_begins_anew_only_where_nothing_was_saved(place, tmp_path):
    place.rewrite(
        lambda event: (
            {**event, "argv": ["echo", "x"], "cwd": os.getcwd(), "name": ""} if event["event"] == "run" else event
        )
    )
    for number in (1, 2):
        (place.run.checkpoints / f"{number:06d}" / "manifest.json").write_text("{}")
    done = keepfit("run", "--runs-dir", place.runs, "--resume", "auto", "--", "echo", "x")
    assert done.returncode == 64 and "damaged" in done.stderr
    shutil.rmtree(place.run.checkpoints)
    done = keepfit("run", "--runs-dir", place.runs, "--resume", "auto", "--", "echo", "x")
    assert (done.returncode, done.stdout) == (0, "x\n")


def test_a_seed_that_is_none_does_not_reach_the_interpreter(place):
    place.rewrite(
        lambda event: (
            {**event, "seed": None, "hash_seed": "not a number; rm -rf /"} if event["event"] == "run" else event
        )
    )
    code = "import os; print(os.environ['PYTHONHASHSEED'])"
    done = keepfit(
        "run", "--runs-dir", place.runs, "--resume", place.run.id, "--force-resume", "--", sys.executable, "-c", code
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_export_executes_nothing_that_others_could_have_changed(place, tmp_path):
    marker = tmp_path / "executed"
    for name, mode in (("python3", 0o777), ("evil", 0o755)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\ntouch {marker}\n")
        program.chmod(mode)
        place.rewrite(
            lambda event, p=program: {**event, "executable": str(p)} if event.get("state") == "ready" else event
        )
        text = Vault(place.run.checkpoints).keep("model-1.json", "{}")
        from .hostile import manifests

        manifests(lambda known, text=text: known.update(beside={"model-1.json": text}))(place)
        done = keepfit("export", place.run.id, tmp_path / "m.keras", "--runs-dir", place.runs)
        assert done.returncode == 0 and "the interpreter that trained it" in done.stderr, done.stderr
        assert not marker.exists() and (tmp_path / "m.safetensors").exists()


def test_export_trusts_no_architecture_without_a_checksum(place, tmp_path):
    (place.run.checkpoints / "model-1.json").write_text('{"class_name": "tanh"}')
    done = keepfit("export", place.run.id, tmp_path / "m.keras", "--runs-dir", place.runs)
    assert done.returncode == 0 and "no architecture was saved with it" in done.stderr
    from .hostile import manifests

    manifests(lambda known: known.update(beside={"model-1.json": "0" * 64}))(place)
    done = keepfit("export", place.run.id, tmp_path / "m.keras", "--runs-dir", place.runs)
    assert done.returncode == 0 and "model-1.json, the model's architecture, is damaged" in done.stderr


# --- the runs directory --------------------------------------------------------------------------------------


def test_a_runs_directory_that_others_can_write_to_is_not_used(place):
    place.runs.chmod(0o777)
    before = {path: path.stat().st_mtime_ns for path in place.runs.rglob("*")}
    for words in (["why"], ["runs"], ["checkpoints"], ["export", "latest", "x.keras"], ["replay"]):
        done = keepfit(*words, "--runs-dir", place.runs)
        assert done.returncode == 64 and "can be written to by others (mode 0777)" in done.stderr
    done = keepfit("run", "--runs-dir", place.runs, "--", "echo", "hi")
    assert (done.returncode, done.stdout) == (0, "hi\n") and "no record of this run will be kept" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in place.runs.rglob("*")} == before


def test_a_record_of_somebody_else_is_passed_over_and_that_is_said(place):
    if os.getuid():
        pytest.skip("needs root: to give a record away")
    from .hostile import good_record

    theirs = good_record(place.runs)
    os.chown(theirs.path, 65534, 65534)
    done = keepfit("runs", "--runs-dir", place.runs, "--json")
    assert [row["id"] for row in json.loads(done.stdout)["runs"]] == [place.run.id]
    assert "1 entry" in done.stderr and "belongs to others" in done.stderr
    assert keepfit("why", theirs.id, "--runs-dir", place.runs).returncode == 64
    os.chown(place.runs, 65534, 65534)
    done = keepfit("runs", "--runs-dir", place.runs)
    assert done.returncode == 64 and "belongs to user 65534" in done.stderr


def test_the_group_of_ones_own_may_write(place):
    """As with a umask of 002, and a group for each user."""
    place.runs.chmod(0o775)
    done = keepfit("runs", "--runs-dir", place.runs, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["runs"]


def test_another_programs_database_is_not_written_to(place):
    shutil.copy(place.outside / "bank.sqlite", place.runs / index.FILE)
    before = (place.runs / index.FILE).read_bytes()
    assert answer(["runs"], place) == 0
    done = keepfit("run", "--runs-dir", place.runs, "--", "echo", "hi")
    assert done.returncode == 0 and (place.runs / index.FILE).read_bytes() == before


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
def test_files_are_private_whatever_the_umask(tmp_path, umask):
    command = [
        "sh",
        "-c",
        f'umask {umask:04o}; exec "$@"',
        "sh",
        *RUN,
        str(tmp_path / "runs"),
        "--",
        sys.executable,
        "-c",
        "1/0",
    ]
    done = subprocess.run(command, capture_output=True, env=stage.clean_environment(Path("/nowhere")), check=False)
    assert done.returncode == 1, done.stderr
    (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    modes = {str(path.relative_to(run)): path.stat().st_mode & 0o777 for path in run.rglob("*")}
    assert {mode for name, mode in modes.items() if name != "stacks"} == {0o600} and modes["stacks"] == 0o700
    assert run.stat().st_mode & 0o777 == 0o700
