"""The command runs as it would without keepfit: bytes, descriptors, signals, exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from .. import stage
from .terminals import Shell, Terminal

PYTHON = sys.executable


def test_output_is_untouched_and_kept_apart(runs):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 500); sys.stderr.write('to stderr')"
    process = stage.start(runs, [PYTHON, "-c", code])
    out, err = process.communicate(timeout=stage.PATIENCE)
    assert out == bytes(range(256)) * 500
    assert err == b"to stderr"
    assert process.returncode == 0


def test_only_the_last_256_kib_are_kept(runs):
    outcome = stage.run(runs, [PYTHON, "-c", "for n in range(100000): print(f'line {n:06}')"])
    kept = (outcome.directory / "stdout").read_bytes()
    assert len(outcome.stdout) == 100000 * 12
    assert len(kept) == 64 + 256 * 1024
    from keepfit.blackbox import tail

    assert tail.read(outcome.folder, "stdout") == outcome.stdout.encode()[-256 * 1024 :]


@pytest.mark.parametrize("ending", ["newline", "return", "nothing"])
def test_the_last_line_survives_sigkill(runs, ending):
    outcome = stage.run(runs, stage.victim("prints_and_dies.py", ending))
    assert outcome.status == 137
    assert "epoch 99" in outcome.stdout and outcome.stdout.rstrip("\r\n").endswith("last words")
    assert b"last words" in (outcome.directory / "stdout").read_bytes()


def test_a_status_is_passed_on(runs):
    assert stage.run(runs, ["sh", "-c", "exit 42"]).status == 42


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (["no-such-command-at-all"], 127, "command not found"),
        (["./no/such/file"], 127, "no such file"),
        (["/etc"], 126, "is a directory"),
        ([str(stage.VICTIMS / "healthy.py")], 126, "not executable"),
    ],
)
def test_what_cannot_be_started_is_one_clear_line(runs, command, status, words):
    outcome = stage.run(runs, command)
    assert outcome.status == status
    assert words in outcome.stderr and len(outcome.stderr.strip().splitlines()) == 1
    assert not list(runs.glob("2*")), "a run that never was leaves no record"


def test_a_script_without_an_interpreter_line_is_the_shells(runs, tmp_path):
    script = tmp_path / "script"
    script.write_text('echo hi "$1"\n')
    script.chmod(0o755)
    outcome = stage.run(runs, [str(script), "there"])
    assert (outcome.status, outcome.stdout) == (0, "hi there\n")


def test_a_reader_that_leaves_ends_the_writer(runs):
    keepfit = stage.start(runs, ["yes"])
    assert keepfit.stdout is not None
    assert os.read(keepfit.stdout.fileno(), 4) == b"y\ny\n"
    keepfit.stdout.close()
    assert keepfit.wait(timeout=stage.PATIENCE) == -signal.SIGPIPE


def test_one_file_for_both_keeps_the_order(runs, tmp_path):
    code = (
        "import sys\n"
        "for n in range(2000):\n"
        "    print(n, 'out', flush=True)\n"
        "    print(n, 'err', file=sys.stderr, flush=True)\n"
    )
    with open(tmp_path / "log", "wb") as log:
        subprocess.run(
            [*stage.KEEPFIT, "run", "--", PYTHON, "-c", code],
            stdout=log,
            stderr=log,
            env=stage.clean_environment(runs),
            check=True,
        )
    wanted = [f"{n} {name}" for n in range(2000) for name in ("out", "err")]
    assert (tmp_path / "log").read_text().splitlines() == wanted


@pytest.mark.parametrize("text", ["bad \\udcff name", "plain"])
def test_odd_letters_in_an_error_never_cost_the_status(runs, text):
    outcome = stage.run(runs, [PYTHON, "-c", f"raise RuntimeError('{text}')"])
    assert outcome.status == 1 and "RuntimeError" in outcome.stderr
    assert outcome.why()["cause"] == "python_error"


def test_in_a_directory_that_is_gone(runs, tmp_path):
    place = tmp_path / "gone"
    place.mkdir()
    script = 'rmdir "$0" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, str(place), *stage.KEEPFIT, "run", "--", "echo", "hi"],
        cwd=place,
        capture_output=True,
        env=stage.clean_environment(runs, PYTHONSAFEPATH="1"),
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"hi\n"), done.stderr


def test_a_prompt_on_the_terminal_while_stdin_is_a_pipe(runs):
    command = 'echo x | "$@" run -- sh -c "read a </dev/tty; echo got \\$a"; echo ended-with $?'
    terminal = Shell(["sh", "-c", command, "sh", *stage.KEEPFIT], stage.clean_environment(runs))
    stage.wait_until(lambda: runs.exists() and any(runs.glob("*/ring")), what="the command")
    terminal.type(b"secret\n")
    terminal.wait_for(b"got secret")
    terminal.wait_for(b"ended-with 0")


def test_stdin_is_the_users(runs):
    process = subprocess.run(
        [*stage.KEEPFIT, "run", "--", "cat"],
        input=b"from the user",
        capture_output=True,
        env=stage.clean_environment(runs),
        timeout=stage.PATIENCE,
        check=False,
    )
    assert process.stdout == b"from the user"


def test_signals_reach_the_command_once(runs):
    code = (
        "import signal\n"
        "seen = []\n"
        "signal.signal(signal.SIGUSR1, lambda *a: seen.append(1))\n"
        "signal.signal(signal.SIGTERM, lambda *a: (print(len(seen)), exit(5)))\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()\n"
    )
    process = stage.start(runs, [PYTHON, "-c", code])
    seen = stage.wait_for_output(process, b"ready")
    os.kill(process.pid, signal.SIGUSR1)
    stage.wait_until(lambda: stage.Outcome(0, "", "", runs).events("signal"), what="the first signal")
    os.kill(process.pid, signal.SIGTERM)
    outcome = stage.finish(process, runs, seen)
    assert outcome.status == 5 and outcome.stdout.strip().endswith("1")
    senders = {event["sender"] for event in outcome.events("signal")}
    assert senders == {os.getpid()}, "the kernel tells who sent it"


def test_a_daemon_left_behind_keeps_its_output(runs):
    outcome = stage.run(runs, stage.victim("leaves_daemon.py", "1"))
    assert "the program's last word" in outcome.stdout and "the daemon's last word" in outcome.stdout


def test_the_command_gets_three_descriptors_and_the_users_own_score(runs):
    code = (
        "import os; fds = [fd for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}')]\n"
        "print(sorted(map(int, fds)), open('/proc/self/oom_score_adj').read().strip())"
    )
    with open("/proc/self/oom_score_adj") as file:
        score = file.read().strip()
    outcome = stage.run(runs, [PYTHON, "-I", "-c", code])
    assert outcome.stdout.strip() == f"[0, 1, 2] {score}"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_started_with_closed_descriptors(runs, closed):
    place = runs.parent / "done"
    script = f'"$@" {closed}'
    command = ["sh", "-c", script, "sh", *stage.KEEPFIT, "run", "--", PYTHON, "-c", f"open({str(place)!r}, 'w')"]
    done = subprocess.run(command, env=stage.clean_environment(runs), timeout=stage.PATIENCE, check=False)
    assert done.returncode == 0 and place.exists()


def test_two_runs_at_once(runs):
    processes = [stage.start(runs, [PYTHON, "-c", f"print('run {n}')"], ["--name", f"n{n}"]) for n in range(4)]
    outputs = [process.communicate(timeout=stage.PATIENCE) for process in processes]
    assert [out for out, _ in outputs] == [f"run {n}\n".encode() for n in range(4)]
    listed = stage.keepfit_json(runs, "runs")["runs"]
    assert sorted(row["name"] for row in listed) == ["n0", "n1", "n2", "n3"]
    assert {row["state"] for row in listed} == {"finished"}


# --- terminals -----------------------------------------------------------------------------------------


def test_a_terminal_stays_a_terminal(runs):
    code = (
        "import os, sys; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), *os.get_terminal_size())"
    )
    terminal = Terminal(["run", "--", PYTHON, "-c", code], stage.clean_environment(runs), rows=31, columns=97)
    assert b"True True True 97 31" in terminal.until_closed()
    assert terminal.status() == 0


def test_a_new_window_size_reaches_the_command(runs):
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGWINCH, lambda *a: (print('now', *os.get_terminal_size(), flush=True), exit(0)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    terminal = Terminal(["run", "--", PYTHON, "-c", code], stage.clean_environment(runs))
    terminal.wait_for(b"ready")
    terminal.resize(40, 132)
    terminal.wait_for(b"now 132 40")
    assert terminal.status() == 0


def test_control_c_interrupts_the_command(runs):
    terminal = Terminal(["run", "--", *stage.victim("killed_by_bystander.py")], stage.clean_environment(runs))
    terminal.wait_for(b"ready")
    terminal.type(b"\x03")
    assert b"interrupted" in terminal.until_closed()
    assert terminal.status() == -signal.SIGINT
    verdict = stage.keepfit_json(runs, "why")
    assert (verdict["cause"], verdict["confidence"]) == ("interrupted", "certain")


def test_control_z_stops_and_fg_continues(runs):
    code = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})\n"
        "print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGCONT})\n"
        "print('went on', flush=True)\n"
    )
    shell = ["sh", "-c", 'set -m; "$@"; echo stopped-with $?; fg >/dev/null; echo ended-with $?', "sh"]
    command = [*shell, *stage.KEEPFIT, "run", "--", PYTHON, "-c", code]
    terminal = Shell(command, stage.clean_environment(runs))
    terminal.wait_for(b"ready")
    terminal.type(b"\x1a")
    terminal.wait_for(b"stopped-with")
    terminal.wait_for(b"went on")
    terminal.wait_for(b"ended-with 0")


def test_a_prompt_is_no_hang(runs, needs):
    needs("tensorflow")
    terminal = Terminal(["run", "--", *stage.victim("pdb_prompt.py")], stage.clean_environment(runs))
    terminal.wait_for(b"(Pdb)")
    with pytest.raises(AssertionError, match="did not appear"):
        terminal.wait_for(b"no step for", seconds=13)  # the suspicion would come after 10 s
    terminal.type(b"c\n")
    terminal.wait_for(b"trained")
    assert terminal.status() == 0
    outcome = stage.Outcome(0, "", "", runs)
    assert outcome.why()["cause"] == "finished" and not outcome.events("finding")
