"""Scripts that are planned: the forecast is near the truth, and nothing of them runs after the training call."""

from __future__ import annotations

import json
import os
import platform
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from keepfit.machine import cgroup
from keepfit.plan.forecast import LEAN_MALLOC

from .. import stage

pytestmark = [pytest.mark.tensorflow, pytest.mark.cgroup]


@pytest.fixture(autouse=True)
def real_things(needs):
    needs("tensorflow", "cgroup")


def plan(folder, kind, *options, status=0, prefix=(), inside=(), typed=None):
    """With time for a search, however busy this machine is."""
    folder.mkdir(exist_ok=True)
    command = [*inside, *stage.victim("plans.py", kind, str(folder))]
    done = subprocess.run(
        [*prefix, *stage.KEEPFIT, "plan", "--search-for", "3600", *options, "--json", "--", *command], stdin=typed,
        capture_output=True, text=True, env=stage.clean_environment(folder / "runs"), check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert not (folder / "after").exists()
    return json.loads(done.stdout) if not status else done.stderr.strip().splitlines()[-1]


def test_the_forecast_is_near_the_truth(tmp_path):
    truth = stage.beside(tmp_path / "plain", stage.victim("plans.py", "fit", str(tmp_path)))
    told = plan(tmp_path / "planned", "fit")
    peak = int(truth().split()[-1])
    assert abs(told["predicted_peak_bytes"] - peak) < 0.15 * peak, (told["predicted_peak_bytes"], peak)
    assert told["how"] == "measured" and told["batch_size"] == 256 and told["fits"]
    assert [trial["rows"] for trial in told["tried"]] == [8, 128]
    assert set(told["breakdown"]) == {
        "runtime", "weights", "gradients", "optimizer", "activations", "workspace", "pipeline", "preloaded",
    }  # fmt: skip
    assert told["breakdown"]["optimizer"] > 2 * told["breakdown"]["weights"] * 0.9
    assert told["options"][0]["name"] == "micro_batch" and told["options"][0]["exact"]
    assert [path.rsplit("/", 1)[-1] for path in told["wrote"]] == ["before"]
    # The largest batch is looked for only where that is asked for.
    assert (told["largest_batch"], told["verified"], told["trials"]) == (None, False, 0)


def test_the_graphs_forecast_stands_there_before_the_measured_one(tmp_path):
    done = subprocess.run(
        [*stage.KEEPFIT, "plan", "--", *stage.victim("plans.py", "fit", str(tmp_path))], text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=stage.clean_environment(tmp_path / "runs"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    first = done.stdout.index("keepfit: from the graph alone: batch 256 needs about ")
    assert first < done.stdout.index("measured in small; its graph alone says ")
    assert done.stdout.endswith("the largest batch was not looked for: keepfit plan --largest does that\n")


def test_a_search_ends_when_its_time_is_over(tmp_path):
    told = plan(tmp_path, "fit", "--largest", "--search-for", "0.001")
    assert (told["largest_batch"], told["verified"], told["trials"]) == (None, False, 0)
    assert told["how"] == "measured" and told["small_trials"] == 2
    assert "batches larger than those that were tried: the search had 0.001 s (--search-for)" in told["not_counted"]


def test_ctrl_c_ends_a_search_with_what_is_known(tmp_path):
    options = ["--memory", "900MiB", "--max", "250", "--search-for", "3600", "--json"]
    process = subprocess.Popen(
        [*stage.KEEPFIT, "plan", *options, "--", *stage.victim("plans.py", "fit", str(tmp_path))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=stage.clean_environment(tmp_path / "runs"),
    )  # fmt: skip
    assert any("keepfit: the script runs again, up to its training call, to try" in line for line in process.stderr)
    stage.wait_until(lambda: stage.children(process.pid), what="the attempt")
    own, started = cgroup.placement().own, stage.children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == -signal.SIGINT  # so that a shell's loop ends, too
    told = json.loads(out)
    assert told["how"] == "measured" and told["search_ended"] == "Ctrl-C ended the search" and told["trials"] == 0
    assert all(map(stage.has_ended, started)) and not (tmp_path / "after").exists()
    assert not list(Path(own.directory).glob(f"keepfit-plan-{process.pid}-*"))


def test_what_is_waited_for_is_said_and_ctrl_c_ends_that_without_a_plan(tmp_path):
    process = subprocess.Popen(
        [*stage.KEEPFIT, "plan", "--", *stage.victim("plans.py", "endless", str(tmp_path))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=stage.clean_environment(tmp_path / "runs"),
    )  # fmt: skip
    said = next(line for line in process.stderr if line.startswith("keepfit: "))
    assert said.startswith("keepfit: waiting for the script to come to its training call (model.fit or a loop of its")
    assert "PID" in said and said.endswith("at most 600 s (--timeout), Ctrl-C ends it\n")
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == -signal.SIGINT and not out


def test_the_same_plan_again_is_remembered_and_another_version_is_compared(tmp_path):
    first = plan(tmp_path, "fit", "--no-search", "--memory", "2GiB")
    assert not first["remembered"] and not first["findings"]
    again = plan(tmp_path, "fit", "--no-search", "--memory", "2GiB")
    assert again["remembered"] and again["tried"] == first["tried"] and not again["findings"]
    other = plan(tmp_path, "fit", "--no-search", "--memory", "1GiB")
    assert not other["remembered"]
    with sqlite3.connect(tmp_path / "runs" / "index.sqlite") as database:  # as if it had been half, two versions ago
        known = {"peak": first["predicted_peak_bytes"] // 2, "versions": ["2.19.0", "3.12.0"]}
        database.execute("UPDATE choices SET measured = ? WHERE key LIKE 'forecast %'", (json.dumps(known),))
    told = plan(tmp_path, "fit", "--no-search", "--memory", "2GiB")
    assert [finding["code"] for finding in told["findings"]] == ["KF130"]
    assert "with 2.19.0 and 3.12.0 it was" in told["findings"][0]["message"]


def test_a_device_that_is_not_here(tmp_path):
    told = plan(tmp_path, "fit", "--for", "2GiB GPU", "--multiple-of", "8")
    assert told["device"] == "gpu:0" and told["limit_bytes"] == 2 << 30 and told["trials"] == 0
    assert told["largest_batch"] % 8 == 0 and told["largest_batch"] > 256 and not told["verified"]
    assert told["predicted_peak_bytes"] == sum(told["breakdown"].values())
    said = plan(tmp_path, "fit", "--for", "plenty", status=64)
    assert said.endswith("--for: a size and GPU was expected, such as \"8GiB GPU\"; received 'plenty'")


def test_the_largest_batch_was_tried_and_fits(tmp_path):
    told = plan(tmp_path, "fit", "--memory", "850MiB", "--multiple-of", "8", "--reserve", "100MiB")
    assert told["verified"] and told["largest_batch"] % 8 == 0
    assert 1 <= told["trials"] <= 2 and told["small_trials"] == 2
    # In a pool (oneDNN's, on x86-64) the first attempt goes on until little is left, or it comes to the limit; what it
    # came to counts only if it ran alone, in the second.
    pooled = platform.machine() == "x86_64"
    assert told["overshot"] <= (2 if pooled else 0)
    peaks = {trial["rows"]: trial["peak_bytes"] for trial in told["tried"]}
    assert 0.85 * (750 << 20) < max(peaks.values()) <= 750 << 20
    assert told["largest_batch"] in peaks if pooled else told["largest_batch"] == max(peaks)
    assert peaks[told["largest_batch"]] > 0.8 * (750 << 20)


def test_a_size_is_verified_as_if_the_script_had_asked_for_it(tmp_path):
    told = plan(tmp_path, "arrays", "--memory", "900MiB", "--max", "250")  # far from the limit
    steps = [int(line) for line in (tmp_path / "steps").read_text().split()]
    verified = [trial["rows"] for trial in told["tried"]][-told["trials"] :]
    assert told["trials"] >= 1 and not told["overshot"] and told["largest_batch"] == max(verified)
    assert steps == [2048 // 128, *(-(-2048 // rows) for rows in verified)]


def test_callbacks_are_left_alone(tmp_path):
    """They come before the first step, and would empty the log of an earlier training."""
    (tmp_path / "log.csv").write_text("epoch,loss\n0,0.5\n")
    told = plan(tmp_path, "callbacks", "--memory", "900MiB", "--max", "250")
    assert (tmp_path / "log.csv").read_text() == "epoch,loss\n0,0.5\n"
    assert told["how"] == "measured" and told["trials"] >= 1
    assert [path.rsplit("/", 1)[-1] for path in told["wrote"]] == ["before"]


def test_what_it_reads_is_there_for_each_of_its_processes(tmp_path):
    (tmp_path / "typed").write_text("header\n500\n")
    with open(tmp_path / "typed") as typed:
        os.lseek(typed.fileno(), len("header\n"), os.SEEK_SET)
        told = plan(tmp_path, "typed", "--memory", "900MiB", "--max", "250", typed=typed)
        assert os.read(typed.fileno(), 9) == b"500\n"  # of our own, nothing was read
    assert told["samples"] == 500 and told["trials"] >= 1 and told["largest_batch"] > 64


def pipe_with(text):
    read, write = os.pipe()
    with open(write, "wb") as file:
        file.write(text)
    return open(read)


def test_a_script_that_cannot_be_run_again_has_no_largest_batch(tmp_path):
    told = plan(tmp_path, "typed", "--memory", "900MiB", "--max", "250", typed=pipe_with(b"500\n"))
    assert told["fits"] and told["largest_batch"] is None and not told["verified"] and told["trials"] == 0
    assert "the largest batch: the script, when it ran again, ended with status 1" in told["not_counted"]


def test_what_trains_another_model_when_it_is_run_again_is_not_measured_by_that(tmp_path):
    told = plan(tmp_path, "typed-width", "--memory", "900MiB", "--max", "250", typed=pipe_with(b"32\n"))
    assert told["largest_batch"] is None and told["trials"] == 0 and told["predicted_peak_bytes"] > 900 << 20
    assert "the largest batch: the script, when it ran again, trained another model" in told["not_counted"]


def test_its_document_is_all_there_is_on_stdout_where_nobody_reads_the_rest(tmp_path):
    command = [*stage.KEEPFIT, "plan", "--memory", "900MiB", "--max", "250", "--json", "--"]
    command += stage.victim("plans.py", "fit", str(tmp_path))
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command],
        stdout=subprocess.PIPE, env=stage.clean_environment(tmp_path / "runs"), check=False,
    )  # fmt: skip
    assert done.returncode == 0 and json.loads(done.stdout)["trials"] >= 1


def test_a_run_that_is_planned_first_reads_its_pipe_itself(tmp_path):
    done = subprocess.run(
        [*stage.KEEPFIT, "run", "--apply", "--", *stage.victim("plans.py", "typed", str(tmp_path))], input="500\n",
        capture_output=True, text=True, env=stage.clean_environment(tmp_path / "runs"), check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("peak"), done.stderr
    assert (
        "no plan (the script ended with status 1 before any training call); it runs as without --apply" in done.stderr
    )


@pytest.mark.parametrize("inside", [["run", "--memory", "1GiB"], ["plan", "--no-search"]])
def test_a_keepfit_in_what_is_planned_stands_aside(tmp_path, inside):
    told = plan(tmp_path, "fit", inside=[*stage.KEEPFIT, *inside, "--"])
    assert told["how"] == "measured" and told["batch_size"] == 256


def test_a_budget_of_a_keepfit_in_what_is_planned_is_not_passed_over_in_silence(tmp_path):
    inside = [*stage.KEEPFIT, "run", "--memory", "1GiB", "--", sys.executable, "-c", "pass"]
    done = subprocess.run(
        [*stage.KEEPFIT, "plan", "--", *inside],
        capture_output=True, text=True, env=stage.clean_environment(tmp_path / "runs"), check=False,
    )  # fmt: skip
    said = "keepfit: --memory 1.00 GiB of the keepfit inside is not what is planned for; give it to the one outside"
    assert done.returncode == 64 and done.stderr.count(said) == 1


def test_a_model_that_is_built_by_its_first_batch_is_the_same_when_it_is_run_again(tmp_path):
    told = plan(tmp_path, "unbuilt", "--memory", "900MiB", "--max", "250")
    assert told["trials"] >= 1 and told["largest_batch"] > 200


@pytest.mark.parametrize(
    "kind",
    [
        "eager", "one-batch", "thread", "child", "own-step", "no-labels", "unbuilt", "several", "replicas",
        "worker-fork", "worker-fork-late", "worker-spawn",
    ],
)  # fmt: skip
def test_however_it_trains(tmp_path, kind):
    told = plan(tmp_path, kind)
    assert told["how"] == "measured" and told["batch_size"] == 256
    assert told["breakdown"]["optimizer"] > (0 if kind == "no-labels" else told["breakdown"]["weights"])
    assert (told["static_peak_bytes"] is None) == (kind == "eager")


def test_a_batch_larger_than_the_data_is_what_there_is(tmp_path):
    assert plan(tmp_path, "short")["batch_size"] == 100


def test_a_model_of_a_fixed_number_of_rows_is_told_by_its_graph(tmp_path):
    told = plan(tmp_path, "fixed")
    assert told["how"] == "static" and told["batch_size"] == 64 and told["outlook"] == "fits"
    assert any("if they were tried: a batch of 2 rows failed" in line for line in told["not_counted"])


def test_the_longest_sequence_counts_not_the_first(tmp_path):
    truth = stage.beside(tmp_path / "plain", stage.victim("plans.py", "sentences", str(tmp_path)))
    told = plan(tmp_path / "planned", "sentences")
    peak = int(truth().split()[-1])
    assert abs(told["predicted_peak_bytes"] - peak) < 0.15 * peak, (told["predicted_peak_bytes"], peak)
    # 64 sentences of 200 words, 256 numbers each, forward and back
    assert told["breakdown"]["activations"] > 64 * 200 * 256 * 4
    bucketing = next(option for option in told["options"] if option["name"] == "length_bucketing")
    assert 0.3 < bucketing["value"] < 0.9 and not bucketing["exact"]


def test_with_a_lean_malloc_it_needs_what_was_priced(tmp_path):
    """Where tensors lie in a pool, malloc's settings are no option, and change nothing."""
    from keepfit.agent.tensorflow import device

    lean = ["env", *(f"{setting}={value}" for setting, value in LEAN_MALLOC.items())]
    truth = stage.beside(tmp_path / "plain", [*lean, *stage.victim("plans.py", "many", str(tmp_path))])
    told = plan(tmp_path / "planned", "many")
    peak = int(truth().split()[-1])
    pools = device.pools()
    priced = [option["predicted_peak_bytes"] for option in told["options"] if option["name"] == "lean_malloc"]
    assert len(priced) == (0 if pools else 1)
    expected = priced[0] if priced else told["predicted_peak_bytes"]
    assert abs(expected - peak) < 0.1 * peak, (expected, peak)
    keeper = "TensorFlow's pool" if pools else "malloc"
    later = f"what {keeper} keeps of later steps"
    assert any(later in line for line in told["not_counted"])
    chosen = plan(tmp_path / "chosen", "many", prefix=lean)
    assert any(later in line for line in chosen["not_counted"])  # fewer, but some
    assert not any(option["name"] == "lean_malloc" for option in chosen["options"])
    assert abs(chosen["predicted_peak_bytes"] - peak) < 0.1 * peak, (chosen["predicted_peak_bytes"], peak)


def test_a_validation_that_needs_more_than_the_training(tmp_path):
    truth = stage.beside(tmp_path / "plain", stage.victim("plans.py", "validation", str(tmp_path)))
    told = plan(tmp_path / "planned", "validation")
    peak = int(truth().split()[-1])
    assert told["peak_in"] == "validation" and told["phases"][-1]["name"] == "a step of the validation"
    assert abs(told["predicted_peak_bytes"] - peak) < 0.25 * peak, (told["predicted_peak_bytes"], peak)


def test_a_preparation_that_needs_more_than_the_training(tmp_path):
    truth = stage.beside(tmp_path / "plain", stage.victim("plans.py", "copies", str(tmp_path)))
    told = plan(tmp_path / "planned", "copies")
    peak = int(truth().split()[-1])
    assert told["peak_in"] == "preparation" and told["phases"][0]["name"] == "the script's preparation"
    assert abs(told["predicted_peak_bytes"] - peak) < 0.05 * peak, (told["predicted_peak_bytes"], peak)
    assert not any(option["name"] == "micro_batch" for option in told["options"])  # it would not help


def test_a_planner_that_is_killed_leaves_nothing_behind(tmp_path):
    """Not even a script that trains by itself from then on."""
    command = [*stage.KEEPFIT, "plan", "--", *stage.victim("plans.py", "fit", str(tmp_path))]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=stage.clean_environment(tmp_path / "runs")
    )
    stage.wait_until((tmp_path / "before").exists, what="the script's first line")
    scripts = [pid for pid in stage.children(process.pid) if not stage.has_ended(pid)]
    process.kill()
    process.wait()
    stage.wait_until(lambda: all(map(stage.has_ended, scripts)), what="the end of the script")
    assert not (tmp_path / "after").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_planner_that_is_ended_takes_all_of_it_away(tmp_path, number):
    """However little the script may be about to come to its training call."""
    command = [*stage.KEEPFIT, "plan", "--memory", "2GiB", "--", *stage.victim("plans.py", "endless", str(tmp_path))]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=stage.clean_environment(tmp_path / "runs")
    )
    stage.wait_until((tmp_path / "before").exists, what="the script's first line")
    own, started = cgroup.placement().own, stage.children(process.pid)
    process.send_signal(number)
    assert process.wait() in (128 + number, -number)
    assert all(map(stage.has_ended, started))
    assert not list(Path(own.directory).glob(f"keepfit-plan-{process.pid}-*"))


def test_an_endless_script_is_killed_with_its_planner(tmp_path):
    command = [*stage.KEEPFIT, "plan", "--memory", "2GiB", "--", *stage.victim("plans.py", "endless", str(tmp_path))]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=stage.clean_environment(tmp_path / "runs")
    )
    stage.wait_until((tmp_path / "before").exists, what="the script's first line")
    started = stage.children(process.pid)
    process.kill()
    process.wait()
    stage.wait_until(lambda: all(map(stage.has_ended, started)), what="the end of the script, and of its keeper")


@pytest.mark.parametrize("kind", ["loop", "compiled-loop"])
def test_a_loop_of_the_scripts_own(tmp_path, kind):
    truth = stage.beside(tmp_path / "plain", stage.victim("plans.py", kind, str(tmp_path)))
    told = plan(tmp_path / "planned", kind)
    peak = int(truth().split()[-1])
    assert told["how"] == "static" and told["batch_size"] == 256
    assert [path.rsplit("/", 1)[-1] for path in told["wrote"]] == ["before"]
    assert 0.6 * peak < told["predicted_peak_bytes"] < 1.7 * peak, (told["predicted_peak_bytes"], peak)


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("none", (), "the script ended without a training call"),
        ("fails", (), "the script ended with status 1 before any training call"),
        ("endless", ("--timeout", "2"), "no training call after 2 s (--timeout); the script was not yet using"),
        ("legacy", (), "the first training call cannot be planned: Keras 3 was expected; this is legacy Keras"),
        ("bad-data", (), "the first training call cannot be planned: InvalidArgumentError"),
        ("greedy", ("--memory", "900MiB"), "the script needs more than 900 MiB before its first training call"),
        ("greedy", ("--memory", "64KiB"), "a budget of 65536 bytes cannot even hold the program's start"),
        (
            "large-arrays",
            ("--memory", "800MiB"),
            "call needs more than 800 MiB before its first step",
        ),
        ("bad-generator", (), r"training call cannot be planned: ValueError: no rows in \x1b]0;this\x07 file"),
    ],
)
def test_scripts_that_never_come_to_it(tmp_path, kind, options, said):
    if kind == "fails":  # its own atexit has run before we could know
        done = subprocess.run(
            [*stage.KEEPFIT, "plan", "--", *stage.victim("plans.py", kind, str(tmp_path))],
            capture_output=True, text=True, env=stage.clean_environment(tmp_path / "runs"), check=False,
        )  # fmt: skip
        assert done.returncode == 64 and said in done.stderr
        return
    assert said in plan(tmp_path, kind, *options, status=64)


def test_keras_on_another_backend_is_said_to_be_unsupported(tmp_path, needs):
    needs("jax")
    assert "Keras on TensorFlow was expected; this is Keras on jax" in plan(tmp_path, "other-backend", status=64)


def test_without_the_agent_nothing_is_planned_and_nothing_is_trained(tmp_path):
    environment = {**stage.clean_environment(tmp_path / "runs"), "KEEPFIT_DISABLE": "1"}
    done = subprocess.run(
        [*stage.KEEPFIT, "plan", "--", *stage.victim("plans.py", "array", str(tmp_path))],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 64 and "KEEPFIT_DISABLE=1 keeps the agent out" in done.stderr
    assert not (tmp_path / "before").exists()


def test_a_command_that_the_agent_is_not_in_is_not_said_to_train_nothing(tmp_path):
    done = subprocess.run(
        [*stage.KEEPFIT, "plan", "--", "env", "-u", "PYTHONPATH", *stage.victim("plans.py", "none", str(tmp_path))],
        capture_output=True, text=True, env=stage.clean_environment(tmp_path / "runs"), check=False,
    )  # fmt: skip
    assert done.returncode == 64 and "a training was not seen, and may have been run" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a command was expected after --"),
        (("--", "python", "-Wd", "-X", "dev", "-sE", "train.py"), "python -E keeps the agent out of the script"),
        (("--", "python3", "-I", "-m", "train"), "python -I keeps the agent out of the script"),
        (("--", "python-train", "-E", "5"), "python-train: command not found on PATH"),
        (("--max", "many", "--", "true"), "--max: a whole number from 1 was expected; received 'many'"),
        (("--search-for", "0", "--", "true"), "--search-for: a number of seconds above 0 was expected; received '0'"),
        (("--multiple-of", "0", "--", "true"), "--multiple-of: a whole number from 1 was expected; received '0'"),
        (("--memory", "", "--", "true"), "--memory: a size was expected, such as 3GiB or 512M; received ''"),
        (("--memory", "much", "--", "true"), "--memory: a size was expected, such as 3GiB or 512M; received 'much'"),
        (("--", "no-such-program"), "no-such-program: command not found on PATH"),
    ],
)
def test_bad_usage_is_one_clear_line(tmp_path, words, said):
    done = subprocess.run(
        [*stage.KEEPFIT, "plan", *words], capture_output=True, text=True, env=stage.clean_environment(tmp_path),
        check=False,
    )  # fmt: skip
    assert done.returncode in (64, 127) and said in done.stderr and len(done.stderr.splitlines()) == 1
