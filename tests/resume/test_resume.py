"""Going on: after which ends, from what, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keepfit.blackbox.states import Vault

from .. import stage
from . import killing

pytestmark = pytest.mark.skipif(bool(stage.why_no_tensorflow()), reason=str(stage.why_no_tensorflow()))

KIND = {"model": "cnn", "source": "arrays", "epochs": 3}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return killing.undisturbed(tmp_path_factory.mktemp("plain"), **KIND)


def newest(outcome_or_runs):
    directory = outcome_or_runs.directory if hasattr(outcome_or_runs, "directory") else outcome_or_runs
    return next(Vault(directory / "checkpoints").good())[1]


def begun(folder: Path, **wanted):
    """A training under keepfit, once it has trained a few batches."""
    command = stage.victim("resumes.py", killing.plan(folder, tell=True, **wanted))
    process = stage.start(folder / "runs", command, ["--restarts", "5"])
    return process, command, stage.wait_for_output(process, b"batch 3\n")


def go_on(folder: Path, command, *options: str) -> stage.Outcome:
    return stage.finish(stage.start(folder / "runs", command, options), folder / "runs")


def auto(folder, command, outcome):
    return go_on(folder, command, "--resume", "auto")


def pasted(folder, command, outcome):
    """The command that the verdict ends with, in a shell."""
    return in_a_shell(folder, outcome.stderr)


def pasted_from_why(folder, command, outcome):
    """The same a day later, from another folder: the terminal was lost."""
    told = subprocess.run(
        [*stage.KEEPFIT, "why"], env=stage.clean_environment(folder / "runs"), capture_output=True, text=True, cwd="/",
        check=True,
    )  # fmt: skip
    return in_a_shell(folder, told.stdout)


def in_a_shell(folder, text):
    (line,) = [line for line in text.splitlines() if line.startswith("  go on ")]
    environment = stage.clean_environment(folder / "other")
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = ["bash", "-c", line.removeprefix("  go on ")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd="/", check=False)
    return stage.Outcome(done.returncode, done.stdout, done.stderr, folder / "runs")


@pytest.mark.parametrize(
    ("number", "going_on"),
    [(signal.SIGTERM, auto), (signal.SIGINT, pasted), (signal.SIGHUP, pasted_from_why)],
)
def test_asked_to_end_it_saves_where_it_is_and_goes_on(tmp_path, untouched, number, going_on):
    process, command, seen = begun(tmp_path, **{**KIND, "pause": 0.1})
    os.kill(process.pid, number)
    outcome = stage.finish(process, tmp_path / "runs", seen)
    # A KeyboardInterrupt ends Python as the signal would.
    assert outcome.status == 128 + number, outcome.stderr
    assert len(outcome.events("attempt")) == 1
    trained = outcome.stdout.count("batch ")
    assert newest(outcome).step == trained, "not saved at the last boundary between two steps"
    again = going_on(tmp_path, command, outcome)
    assert again.status == 0, again.stderr
    assert len([path for path in (tmp_path / "runs").iterdir() if path.is_dir()]) == 1, "a new run was made"
    assert [attempt["n"] for attempt in again.why()["attempts"]] == [1, 2]
    assert killing.result(tmp_path) == untouched
    new = go_on(tmp_path, [sys.executable, "-c", "pass"], "--resume", "auto")
    assert new.status == 0 and len(new.events("attempt")) == 1


def test_to_the_trainee_alone_it_is_resumed(tmp_path, untouched):
    process, _, seen = begun(tmp_path, **{**KIND, "pause": 0.1})
    os.kill(stage.command_pid(tmp_path / "runs"), signal.SIGTERM)
    outcome = stage.finish(process, tmp_path / "runs", seen)
    assert outcome.status == 0, outcome.stderr
    assert [attempt["cause"] for attempt in outcome.why()["attempts"]] == ["terminated", "finished"]
    assert killing.result(tmp_path) == untouched


def test_sigusr1_saves_and_the_training_goes_on(tmp_path, untouched):
    process, _, seen = begun(tmp_path, **{**KIND, "pause": 0.1})
    before = len(Vault(sorted((tmp_path / "runs").iterdir())[0] / "checkpoints").generations())
    os.kill(process.pid, signal.SIGUSR1)
    vault = Vault(next(path for path in (tmp_path / "runs").iterdir() if path.is_dir()) / "checkpoints")
    stage.wait_until(lambda: len(vault.generations()) > before, what="a state")
    outcome = stage.finish(process, tmp_path / "runs", seen)
    assert outcome.status == 0 and len(outcome.events("attempt")) == 1
    assert killing.result(tmp_path) == untouched


# --- what is refused ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was asked to end, and its command."""
    folder = tmp_path_factory.mktemp("stopped")
    shutil.copy(stage.VICTIMS / "resumes.py", folder / "train.py")
    command = [sys.executable, str(folder / "train.py"), killing.plan(folder, tell=True, pause=0.1, **KIND)]
    process = stage.start(folder / "runs", command)
    seen = stage.wait_for_output(process, b"batch 3\n")
    os.kill(process.pid, signal.SIGTERM)
    outcome = stage.finish(process, folder / "runs", seen)
    assert outcome.status == 143
    return folder, command, outcome.directory.name


def copied(stopped, folder: Path):
    """The same once more, so that no test changes another's."""
    original, command, run = stopped
    shutil.copytree(original / "runs", folder / "runs")
    return command, run


def test_another_model_is_refused(tmp_path, stopped):
    command, run = copied(stopped, tmp_path)
    other = [*command[:-1], json.dumps({**json.loads(command[-1]), "model": "lstm"})]
    outcome = go_on(tmp_path, other, "--resume", run)
    assert outcome.status == 64 and len(outcome.said) == 1
    assert "cannot resume fit 1: layer 2: LSTM where Conv2D was saved" in outcome.stderr
    assert "KF704" in [finding["code"] for finding in outcome.events("finding")]


def test_force_resume_takes_what_fits(tmp_path, stopped):
    """Another head on the same body, and other data: what fits is taken, the epoch begins with its first batch."""
    command, run = copied(stopped, tmp_path)
    changed = json.dumps({**json.loads(command[-1]), "data": 8, "classes": 4, "out": str(tmp_path / "result.json")})
    outcome = go_on(tmp_path, [*command[:-1], changed], "--resume", run, "--force-resume")
    assert outcome.status == 0, outcome.stderr
    assert outcome.events("resumed")


def test_other_data_is_refused(tmp_path, stopped):
    command, run = copied(stopped, tmp_path)
    other = [*command[:-1], json.dumps({**json.loads(command[-1]), "data": 8})]
    outcome = go_on(tmp_path, other, "--resume", run)
    assert outcome.status == 64 and "the contents of the data" in outcome.stderr


def test_a_changed_script_is_refused_before_anything_runs(tmp_path, stopped, untouched):
    folder, command, _ = stopped
    _, run = copied(stopped, tmp_path)
    script = Path(command[1])
    before = script.read_text()
    try:
        script.write_text(before + "\n# a comment\n")
        outcome = go_on(tmp_path, command, "--resume", run)
        assert outcome.status == 64 and outcome.stdout == ""
        assert "train.py has changed" in outcome.stderr and len(outcome.stderr.splitlines()) == 1
        forced = go_on(tmp_path, command, "--resume", run, "--force-resume")
        assert forced.status == 0, forced.stderr
    finally:
        script.write_text(before)
    assert killing.result(folder) == untouched


def test_two_at_once_the_second_is_refused(tmp_path, stopped):
    command, run = copied(stopped, tmp_path)
    first = stage.start(tmp_path / "runs", command, ["--resume", run])
    try:
        stage.wait_for_output(first, b"batch ")
        second = go_on(tmp_path, command, "--resume", run)
        assert second.status == 64 and "is in use" in second.stderr
    finally:
        stage.finish(first, tmp_path / "runs")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--resume", "nosuchrun"], "no run"),
        (["--force-resume"], "--resume RUN"),
    ],
)
def test_bad_usage(tmp_path, words, says):
    outcome = go_on(tmp_path, ["true"], *words)
    assert outcome.status == 64 and says in outcome.stderr


def test_a_piped_in_input_forbids_a_restart(tmp_path):
    command = stage.victim("resumes.py", killing.plan(tmp_path, deaths=[["batch-end", 4]], **KIND))
    done = subprocess.run(
        [*stage.KEEPFIT, "run", "--", *command], input=b"data\n", capture_output=True,
        env=stage.clean_environment(tmp_path / "runs"), check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert b"cannot be rewound" in done.stderr


# --- disks ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(bool(stage.why_no_mounts()), reason=str(stage.why_no_mounts()))
def test_a_full_disk_pauses_saving_and_the_training_goes_on(tmp_path, untouched):
    with stage.small_file_system(tmp_path / "runs", "1M") as runs:
        command = stage.victim("resumes.py", killing.plan(tmp_path, **{**KIND, "tell": True, "pause": 0.15}))
        process = stage.start(runs, command)
        seen = stage.wait_for_output(process, b"batch 9\n")
        run = next(path for path in runs.iterdir() if path.is_dir())
        filler = runs / "filler"
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        outcome = stage.finish(process, runs, seen)
        assert outcome.status == 0, outcome.stderr
        assert killing.result(tmp_path) == untouched
        assert next(Vault(run / "checkpoints").good())[1].fit == 1


def test_a_vanished_runs_directory_is_no_harm(tmp_path, untouched):
    process, _, seen = begun(tmp_path, **{**KIND, "pause": 0.1})
    shutil.rmtree(tmp_path / "runs")
    outcome = stage.finish(process, tmp_path / "runs", seen)
    assert outcome.status == 0, outcome.stderr
    assert killing.result(tmp_path) == untouched


# --- looking at them -----------------------------------------------------------------------------------


def test_checkpoints_lists_and_verifies(tmp_path, stopped):
    copied(stopped, tmp_path)
    document = stage.keepfit_json(tmp_path / "runs", "checkpoints", "latest")
    assert document["schema"] == "keepfit.checkpoints/1" and all(state["good"] for state in document["checkpoints"])
    last = document["checkpoints"][-1]
    run = next(path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    os.truncate(run / "checkpoints" / f"{last['generation']:06d}" / "state.safetensors", 100)
    after = stage.keepfit_json(tmp_path / "runs", "checkpoints", "latest")["checkpoints"][-1]
    assert after["good"] is False and "100 bytes" in after["why"]


def test_a_damaged_state_is_passed_over_and_said(tmp_path, stopped, untouched):
    folder, command, run = stopped
    shutil.copytree(folder / "runs", tmp_path / "runs")
    last = Vault(tmp_path / "runs" / run / "checkpoints").generations()[-1]
    os.truncate(os.path.join(last.path, "state.safetensors"), 100)
    outcome = go_on(tmp_path, command, "--resume", run)
    assert outcome.status == 0, outcome.stderr
    assert f"saved state {last.number} is damaged" in outcome.stderr and "the one before it is taken" in outcome.stderr
    assert killing.result(folder) == untouched


def test_export_is_an_ordinary_keras_file(tmp_path, stopped):
    copied(stopped, tmp_path)
    target = tmp_path / "model.keras"
    done = subprocess.run(
        [*stage.KEEPFIT, "export", "latest", str(target)], capture_output=True, text=True,
        env=stage.clean_environment(tmp_path / "runs"), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code = f"import keras; m = keras.models.load_model({str(target)!r}); print(int(m.optimizer.iterations.numpy()))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    run = next(path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert int(loaded.stdout) == newest(run).step
    refused = subprocess.run(
        [*stage.KEEPFIT, "export", "latest", "/proc/nowhere/model.keras"], capture_output=True, text=True,
        env=stage.clean_environment(tmp_path / "runs"), check=False,
    )  # fmt: skip
    assert refused.returncode == 73


def test_memory_that_leaks_is_given_back_before_the_line(tmp_path):
    """A planned restart: at a saved state, before the danger line, with the micro-batch it had."""
    wanted = {"model": "dense", "source": "arrays", "epochs": 10}
    undisturbed = killing.beside(tmp_path / "plain", **wanted)
    outcome = killing.killed(tmp_path / "leaking", ("--memory", "640MiB"), **wanted, leak=4, pause=0.1)
    assert outcome.status == 0, outcome.stderr
    dangers = outcome.events("danger")
    assert dangers and {danger["how"] for danger in dangers} == {"planned"}, outcome.stderr
    assert all(danger["use_bytes"] < danger["line_bytes"] for danger in dangers)
    verdict = outcome.why()
    assert [attempt["cause"] for attempt in verdict["attempts"]] == ["memory_budget"] * len(dangers) + ["finished"]
    assert all(attempt["changed"].startswith("resumed at") for attempt in verdict["attempts"][1:])
    assert killing.result(tmp_path / "leaking") == undisturbed()


def test_a_position_that_tensorflow_refuses_costs_the_order_and_not_the_training(tmp_path):
    wanted = {"model": "dense", "source": "tfdata", "epochs": 2}
    outcome = killing.killed(tmp_path, deaths=[["batch-end", 18]], forgets=True, **wanted)
    assert outcome.status == 0 and killing.deaths(outcome) == 1, outcome.stderr
    assert [finding["code"] for finding in outcome.events("finding")] == ["KF706"]
    assert killing.result(tmp_path)["iterations"] == 2 * 13
