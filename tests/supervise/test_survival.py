"""Each process outlives the other: whichever of keepfit's own is killed, the training goes on."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from keepfit.blackbox import tail
from keepfit.supervise.danger import is_stopped

from .. import stage
from .terminals import Shell, Terminal
from .test_danger import cgroups_named

LINES = 40
COUNTS = stage.victim("counts.py", str(LINES), "0.05")
ALL_LINES = [f"line {number}" for number in range(LINES)]


def judge_of(front: int) -> int:
    """keepfit's second process, known by the name it takes."""
    for child in stage.children(front):
        with open(f"/proc/{child}/comm") as file:
            if file.read().startswith("keepfit-judge"):
                return child
    raise AssertionError("no judge")


def test_front_killed_with_a_pipe(runs):
    process = stage.start(runs, COUNTS)
    seen = stage.wait_for_output(process, b"line 5\n")
    os.kill(process.pid, signal.SIGKILL)
    outcome = stage.finish(process, runs, seen)
    assert outcome.stdout.split("\n")[:-1] == ALL_LINES
    stage.wait_until(lambda: outcome.why()["outcome"] == "finished", what="the verdict of the surviving judge")
    assert tail.text(outcome.folder, "stdout") == outcome.stdout


def test_front_killed_with_a_terminal(runs):
    terminal = Terminal(["run", "--", *COUNTS], stage.clean_environment(runs))
    terminal.wait_for(b"line 5\r\n")
    os.kill(terminal.pid, signal.SIGKILL)
    shown = terminal.until_closed().decode().replace("\r", "").split("\n")
    assert [line for line in shown if line.startswith("line ")] == ALL_LINES


def test_a_job_stopped_with_its_front_is_hung_up_with_its_terminal(runs):
    shell = ["sh", "-c", 'set -m; "$@"; read -r line', "sh"]
    words = [*shell, *stage.KEEPFIT, "run", "--", *stage.victim("killed_by_bystander.py")]
    terminal = Shell(words, stage.clean_environment(runs))
    terminal.wait_for(b"ready")
    (keepfit,) = stage.children(terminal.pid)
    command = stage.command_pid(runs)
    terminal.type(b"\x1a")
    stage.wait_until(lambda: is_stopped(command), what="the stop")
    os.close(terminal.fd)
    for pid in (keepfit, terminal.pid):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(terminal.pid, 0)
    stage.wait_until(lambda: stage.has_ended(command), what="the end of the stopped command")


def test_judge_killed(runs):
    process = stage.start(runs, COUNTS)
    seen = stage.wait_for_output(process, b"line 5\n")
    os.kill(judge_of(process.pid), signal.SIGKILL)
    outcome = stage.finish(process, runs, seen)
    assert outcome.status == 0 and outcome.stdout.split("\n")[:-1] == ALL_LINES
    verdict = outcome.why()
    assert (verdict["outcome"], verdict["confidence"]) == ("finished", "certain")
    assert any("judge died" in event["what"] for event in outcome.events("trouble"))


def test_judge_killed_inside_a_budget_lets_the_command_go_on(runs, needs):
    """The fence freezes at its limit; with nobody to judge, the kernel decides instead of nobody."""
    needs("cgroup")
    code = "import time; print('ready', flush=True); time.sleep(1); b = b'x' * (900 << 20); print('never')"
    process = stage.start(runs, [sys.executable, "-c", code], ["--memory", "300MiB"])
    seen = stage.wait_for_output(process, b"ready\n")
    os.kill(judge_of(process.pid), signal.SIGKILL)
    outcome = stage.finish(process, runs, seen)
    assert outcome.status == 137
    assert outcome.why()["cause"] == "memory_budget", "a death at our own budget, also by the kernel's hand"


def test_both_supervisors_killed_inside_a_budget_never_leave_it_frozen(runs, needs):
    needs("cgroup")
    code = "import time; print('ready', flush=True); time.sleep(1); b = b'x' * (900 << 20); print('never')"
    process = stage.start(runs, [sys.executable, "-c", code], ["--memory", "300MiB"])
    stage.wait_for_output(process, b"ready\n")  # two writes: the second must not find the pipe broken
    command = stage.command_pid(runs)
    for pid in (judge_of(process.pid), process.pid):
        os.kill(pid, signal.SIGKILL)
    stage.wait_until(lambda: stage.has_ended(command), what="the kernel's kill at the limit")
    process.communicate(timeout=stage.PATIENCE)
    assert stage.keepfit_json(runs, "why")["cause"] == "memory_budget"
    run = stage.Outcome(0, "", "", runs).directory.name
    stage.wait_until(lambda: cgroups_named(run) == [], what="the keeper to take the cgroup away")


def test_everything_killed_together(runs):
    process = stage.start(runs, COUNTS)
    stage.wait_for_output(process, b"line 5\n")
    pids = [process.pid, judge_of(process.pid), stage.command_pid(runs)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=stage.PATIENCE)
    outcome = stage.Outcome(0, "", "", runs)
    verdict = outcome.why()
    assert verdict["outcome"] == "died" and verdict["cause"] == "killed_unknown"
    assert verdict["confidence"] == "possible" and any("exit status" in word for word in verdict["lacked"])
    (row,) = stage.keepfit_json(runs, "runs")["runs"]
    assert row["state"] == "died"
    assert "line 5" in (outcome.directory / "stdout").read_bytes().decode(errors="replace")


def test_supervisors_killed_and_the_agent_tells_the_end(runs):
    code = "import time; print('ready', flush=True); time.sleep(1)"
    process = stage.start(runs, [sys.executable, "-c", code])
    stage.wait_for_output(process, b"ready\n")
    command = stage.command_pid(runs)
    for pid in (judge_of(process.pid), process.pid):
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=stage.PATIENCE)
    stage.wait_until(lambda: stage.has_ended(command), what="the end of the command")
    verdict = stage.keepfit_json(runs, "why")
    assert (verdict["cause"], verdict["confidence"]) == ("finished", "likely")


def test_a_running_run_is_running_and_a_reused_pid_is_not(runs):
    process = stage.start(runs, stage.victim("killed_by_bystander.py"))
    seen = stage.wait_for_output(process, b"ready\n")
    (row,) = stage.keepfit_json(runs, "runs")["runs"]
    assert row["state"] == "running" and stage.keepfit_json(runs, "why")["outcome"] == "running"
    os.kill(process.pid, signal.SIGTERM)
    outcome = stage.finish(process, runs, seen)
    # The same record, as if pid and boot were another process': never `running`.
    journal = outcome.directory / "journal.jsonl"
    kept = [line for line in journal.read_text().splitlines() if '"exit"' not in line and '"verdict"' not in line]
    journal.write_text("\n".join(kept) + "\n")
    (runs / "index.sqlite").unlink()
    (row,) = stage.keepfit_json(runs, "runs")["runs"]
    assert row["state"] != "running"


@pytest.mark.parametrize("place", ["a file", "a read-only file system"])
def test_a_runs_directory_that_cannot_be_written(tmp_path, place, needs):
    if place == "a file":
        runs = tmp_path / "runs"
        runs.write_text("not a directory")
        outcome = stage.run(runs, stage.victim("healthy.py"))
    else:
        needs("mounts")
        runs = tmp_path / "runs"
        runs.mkdir()
        prefix = [
            "unshare",
            "-m",
            "sh",
            "-c",
            f'mount -t tmpfs tmpfs "{runs}" && mount -o remount,ro "{runs}" && exec "$@"',
            "sh",
        ]
        outcome = stage.run(runs, stage.victim("healthy.py"), prefix=prefix)
    assert outcome.status == 0 and outcome.stdout == "all is well\n"
    assert "no record" in outcome.stderr and len(outcome.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("size", ["64k", "400k", "1500k"])
def test_a_full_runs_disk_never_harms_the_command(tmp_path, needs, size):
    needs("mounts")
    with stage.small_file_system(tmp_path / "runs", size) as runs:
        outcome = stage.run(runs, [sys.executable, "-c", "print('x' * 300000); print('alive')"])
        assert outcome.status == 0
        assert outcome.stdout.endswith("alive\n")


def test_a_truncated_record_never_signals_the_trainee(runs, needs):
    needs("tensorflow")
    code = (
        "import keras, numpy as np, os\n"
        "x = np.ones((64, 4), 'float32')\n"
        "m = keras.Sequential([keras.layers.Dense(1)]); m.compile('sgd', 'mse')\n"
        "m.fit(x, x[:, :1], verbose=0); print('ready', flush=True); input()\n"
        "m.fit(x, x[:, :1], epochs=3, verbose=0); print('trained', flush=True)\n"
    )
    import subprocess

    process = subprocess.Popen(
        [*stage.KEEPFIT, "run", "--", sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=stage.clean_environment(runs),
    )
    seen = stage.wait_for_output(process, b"ready\n")
    for name in ("ring", "stdout", "stderr", "journal.jsonl"):
        os.truncate(stage.Outcome(0, "", "", runs).directory / name, 0)
    assert process.stdin is not None
    out, err = process.communicate(b"\n", timeout=stage.PATIENCE)
    assert process.returncode == 0 and b"trained" in seen + out, err
