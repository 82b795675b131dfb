"""The verbs as a user and as a program meet them: documents, exit statuses, one clear line for a mistake."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from .. import stage


def keepfit(runs, *words, **more):
    return subprocess.run(
        [*stage.KEEPFIT, *words], capture_output=True, text=True, env=stage.clean_environment(runs, **more), check=False
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), 64, ""),
        (("wy",), 64, "did you mean why?"),
        (("xyz",), 64, "verbs: run"),
        (("run",), 64, "a command was expected after --"),
        (("run", "--"), 64, "a command was expected after --"),
        (("run", "--memory", "lots", "--", "true"), 64, "received 'lots'"),
        (("run", "--memory", "0", "--", "true"), 64, "received '0'"),
        (("run", "--memory", "3", "--", "true"), 64, "did you mean 3GiB?"),
        (("plan", "--memory", "3", "--", "true"), 64, "did you mean 3GiB?"),
        (("python", "train.py"), 64, "did you mean: keepfit run -- python train.py"),
        (("runs", "--since", "soon"), 64, "received 'soon'"),
        (("runs", "--remove-older", "30 years"), 64, "received '30 years'"),
        (("runs", "--yes"), 64, "--remove or --remove-older was expected"),
        (("runs", "--remove", "nothing"), 64, "no runs are recorded"),
        (("run", "--guard", "nonsense", "--", "true"), 64, "received nonsense"),
        (("run", "--hang-after", "-3", "--", "true"), 64, "received '-3'"),
        (("run", "--restarts", "many", "--", "true"), 64, "received 'many'"),
        (("run", "--no-such-option", "--", "true"), 64, "--no-such-option"),
        (("why",), 64, "no runs are recorded"),
        (("explain", "KF999"), 64, "no condition is called 'KF999'"),
        (("explain",), 64, "required"),
        (("watch", "abc"), 64, "received 'abc'"),
        (("watch", "4194399"), 64, "there is no process"),
    ],
)
def test_a_mistake_is_one_clear_line(runs, words, status, said):
    done = keepfit(runs, *words)
    assert done.returncode == status
    assert said in done.stderr and "Traceback" not in done.stderr
    if words:
        assert len(done.stderr.strip().splitlines()) == 1


def test_an_unknown_run_lists_near_names(runs):
    stage.run(runs, stage.victim("healthy.py"), ["--name", "bert-large"])
    done = keepfit(runs, "why", "bert-lrge")
    assert done.returncode == 64 and "near it: bert-large" in done.stderr


def test_everything_after_the_dashes_is_the_commands(runs):
    done = keepfit(runs, "run", "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", "--memory", "--", "x")
    assert done.stdout.strip() == "['--memory', '--', 'x']"


def test_help_and_version(runs):
    assert "keepfit run -- python train.py" in keepfit(runs, "--help").stdout
    assert keepfit(runs, "--version").stdout.startswith("keepfit ")
    for verb in ("run", "why", "runs", "watch", "rules", "explain", "doctor", "demo"):
        done = keepfit(runs, verb, "--help")
        assert done.returncode == 0 and done.stdout


def test_the_verdict_document(runs):
    stage.run(runs, stage.victim("exception.py"))
    document = stage.keepfit_json(runs, "why")
    assert list(document) == [
        "schema", "run", "outcome", "cause", "because", "code", "confidence", "summary", "where", "memory", "evidence",
        "lacked", "remedies", "attempts",
    ]  # fmt: skip
    assert document["schema"] == "keepfit.verdict/1"
    assert list(document["where"]) == [
        "attempt", "epoch", "step", "phase", "op", "layer", "file", "line", "pid", "process",
    ]  # fmt: skip
    assert list(document["memory"]) == [
        "limit_bytes", "limit_source", "peak_bytes", "last_bytes", "gpu", "forecast_bytes",
    ]  # fmt: skip
    assert set(document["evidence"][0]) == {"source", "says", "strength"}
    assert set(document["remedies"][0]) == {"title", "how", "saves_bytes", "automatic"}
    assert set(document["attempts"][0]) == {"n", "cause", "changed", "seconds", "last_step"}


def test_the_runs_document(runs):
    stage.run(runs, stage.victim("exits_3.py"), ["--name", "three"])
    document = stage.keepfit_json(runs, "runs")
    assert document["schema"] == "keepfit.runs/1"
    (row,) = document["runs"]
    assert (row["name"], row["state"], row["cause"]) == ("three", "died", "exit_nonzero")


def test_the_rules_document(runs):
    document = stage.keepfit_json(runs, "rules")
    assert document["schema"] == "keepfit.rules/1" and len(document["rules"]) > 30
    assert {"code", "condition", "severity", "moments"} <= set(document["rules"][0])


@pytest.mark.parametrize("word", ["KF101", "kf101", "101", "cgroup_oom", "cgroup-memory-limit"])
def test_explain_by_any_of_its_names(runs, word):
    done = keepfit(runs, "explain", word)
    assert "KF101" in done.stdout and "How keepfit knows" in done.stdout


def test_explain_oom_lists_all_of_them(runs):
    shown = keepfit(runs, "explain", "oom").stdout
    for cause in ("host_oom", "cgroup_oom", "memory_budget", "gpu_oom", "allocation_failed", "shm_full"):
        assert f" {cause} " in shown


def test_a_budget_beyond_what_there_is_is_remarked(runs):
    outcome = stage.run(runs, ["true"], ["--memory", "900GiB"])
    assert outcome.status == 0
    assert re.search(r"keepfit: --memory 900\.00 GiB is more than there is: .* that is the limit\n", outcome.stderr)
    for budget in ("100MiB", "100000001"):  # which is no whole number of pages
        assert stage.run(runs, ["true"], ["--memory", budget]).stderr == ""


def test_a_budget_by_the_environment(runs):
    assert stage.run(runs, ["true"], KEEPFIT_MEMORY="900GiB").stderr.startswith("keepfit: --memory 900.00 GiB")
    assert "KEEPFIT_MEMORY" in keepfit(runs, "run", "--", "true", KEEPFIT_MEMORY="much").stderr


@pytest.mark.parametrize(
    ("words", "guards"),
    [
        (["--guard", "none"], []),
        (["--guard", "none", "--hang-after", "20"], ["hang"]),
        (["--guard", "memory", "--on-nan", "stop"], ["memory", "numbers"]),
        (["--guard", "none", "--clip", "auto"], ["numbers"]),
        (["--guard", "none", "--resume", "auto"], ["checkpoint"]),
    ],
)
def test_an_option_that_asks_for_a_guard_switches_it_on(runs, words, guards):
    (head,) = stage.run(runs, ["true"], words).events("run")
    assert head["guards"] == guards


def test_doctor(runs):
    document = stage.keepfit_json(runs, "doctor")
    assert document["schema"] == "keepfit.doctor/1"
    found = {ability["name"]: ability for ability in document["abilities"]}
    assert found["memory limit"]["ok"] and found["runs directory"]["ok"]
    assert all(ability["ok"] or ability["change"] for ability in document["abilities"])
    assert keepfit(runs, "doctor").returncode == 0


def test_no_colours_through_a_pipe_and_none_with_no_color(runs):
    stage.run(runs, stage.victim("exception.py"))
    assert "\x1b[" not in keepfit(runs, "why").stdout
    assert "\x1b[" in keepfit(runs, "why", FORCE_COLOR="1").stdout
    assert "\x1b[" not in keepfit(runs, "why", FORCE_COLOR="1", NO_COLOR="1").stdout


def test_quiet_says_nothing_but_records(runs):
    outcome = stage.run(runs, stage.victim("exits_3.py"), ["--quiet"])
    assert (outcome.status, outcome.stderr) == (3, "") and outcome.why()["cause"] == "exit_nonzero"


def test_a_reader_that_leaves_is_no_error(runs):
    done = subprocess.run(
        f"{stage.KEEPFIT[0]} -m keepfit rules | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""


def test_an_index_that_cannot_be_written_is_done_without(runs):
    stage.run(runs, stage.victim("healthy.py"))
    (runs / "index.sqlite").unlink()
    (runs / "index.sqlite").mkdir()
    (row,) = stage.keepfit_json(runs, "runs")["runs"]
    assert row["state"] == "finished"


# --- watch --------------------------------------------------------------------------------------------


def test_watch_a_process_that_is_killed(runs):
    victim = subprocess.Popen(stage.victim("killed_by_bystander.py"), stdout=subprocess.PIPE)
    stage.wait_for_output(victim, b"ready")
    watcher = subprocess.Popen(
        [*stage.KEEPFIT, "watch", str(victim.pid), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=stage.clean_environment(runs),
    )
    stage.wait_until(lambda: runs.exists() and any(runs.glob("*/ring")), what="the watcher's record")
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    out, _ = watcher.communicate(timeout=stage.PATIENCE)
    document = json.loads(out)
    assert document["cause"] == "killed_unknown", document


def test_watch_detaches_and_leaves_it_alone(runs):
    victim = subprocess.Popen(stage.victim("killed_by_bystander.py"), stdout=subprocess.PIPE)
    stage.wait_for_output(victim, b"ready")
    watcher = subprocess.Popen(
        [*stage.KEEPFIT, "watch", str(victim.pid)], stderr=subprocess.PIPE, env=stage.clean_environment(runs)
    )
    stage.wait_until(lambda: runs.exists() and any(runs.glob("*/ring")), what="the watcher's record")
    watcher.send_signal(signal.SIGINT)
    _, err = watcher.communicate(timeout=stage.PATIENCE)
    assert watcher.returncode == 0 and b"detached" in err
    assert victim.poll() is None
    victim.kill()
    victim.wait()


def test_output_that_cannot_be_written_is_said_in_a_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run([*stage.KEEPFIT, "rules"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (73, "keepfit: no space left on the device of stdout\n")
    closed = ["sh", "-c", '"$@" >&-', "sh", *stage.KEEPFIT, "rules"]
    done = subprocess.run(closed, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
