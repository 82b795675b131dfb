"""keepfit inside of shells, make and schedulers: they see of it what they would see of the command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .. import stage
from . import compare
from .compare import LAUNCHER
from .lines import Line

READY = 'echo "ready $1"; exec sleep 60\n'
RUN = [str(LAUNCHER), "run", "--quiet", "--"]


def in_terminal(tmp_path, script: str, keys: bytes, *words: str, shell: str = "bash") -> tuple[int, bytes]:
    (tmp_path / "ready.sh").write_text(READY)
    line = Line("", (shell, "-c", script, shell, *words, "sh", str(tmp_path / "ready.sh")), how="terminal",
                stdin=keys, environment={"KEEPFIT_RUNS": str(tmp_path / "runs")})  # fmt: skip
    seen = compare._seen(line, [], tmp_path)
    return seen.status, re.sub(rb"line 1: +\d+ ", b"line 1: ", seen.stdout)


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize(
    ("script", "keys"),
    [
        ('for i in 1 2 3; do "$@" $i; done', b"ready 1\r\n>\x03"),
        ('for i in 1 2 3; do "$@" $i; echo next; done; echo after', b"ready 1\r\n>\x03"),
        ('"$@" 1; "$@" 2', b"ready 1\r\n>\x03"),
        ('trap "echo trapped; exit 4" INT; "$@" 1; echo not here', b"ready 1\r\n>\x03"),
        ('"$@" 1 && echo no; echo "status $?"', b"ready 1\r\n>\x1c"),
        ("trap '' INT; \"$@\" 1; echo still here", b"ready 1\r\n>\x03\x1c"),
    ],
    ids=["a loop", "a loop with more", "two in a row", "a trap", "quit", "ignored"],
)
def test_ctrl_c_reaches_the_script_around(tmp_path, shell, script, keys):
    plain = in_terminal(tmp_path, script, keys, shell=shell)
    kept = in_terminal(tmp_path, script, keys, *RUN, shell=shell)
    assert kept == plain


def test_ctrl_c_ends_a_make(tmp_path):
    (tmp_path / "Makefile").write_text("all: one two\none two:\n\t@$(RUN) sh ready.sh $@\n")
    (tmp_path / "ready.sh").write_text(READY)
    results = []
    for run in ("", " ".join(RUN)):
        words, runs = ("make", "-C", str(tmp_path), f"RUN={run}"), {"KEEPFIT_RUNS": str(tmp_path / "runs")}
        line = Line("", words, how="terminal", stdin=b"ready one\r\n>\x03", environment=runs)
        results.append(compare._seen(line, [], tmp_path))
    plain, kept = results
    assert kept.status == plain.status and b"ready two" not in kept.stdout


NUMBERS = [n for n in range(1, 65) if n not in (9, 19, 18, 20, 21, 22, 17, 28, 32, 33)]


def test_every_signal_reaches_the_command(tmp_path):
    """SIGRTMIN and what comes behind it included, with the value that was queued with it."""
    code = (
        "import signal, sys\n"
        f"numbers = set({NUMBERS})\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, numbers)\n"
        "print('ready', flush=True)\n"
        "for _ in numbers:\n"
        "    info = signal.sigwaitinfo(numbers)\n"
        "    print(info.si_signo, info.si_code, flush=True)\n"
    )
    process = stage.start(tmp_path / "runs", [sys.executable, "-c", code])
    seen = stage.wait_for_output(process, b"ready\n")
    sender = (
        "import ctypes, os, sys\nfor n in map(int, sys.argv[2:]):\n"
        "    ctypes.CDLL(None).sigqueue(int(sys.argv[1]), n, ctypes.c_void_p(5))"
    )
    for number in NUMBERS:
        subprocess.run([sys.executable, "-c", sender, str(process.pid), str(number)], check=True)
        seen += stage.wait_for_output(process, f"{number} -1\n".encode())
    outcome = stage.finish(process, tmp_path / "runs", seen)
    assert outcome.status == 0, outcome.stderr


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 10, 11, 13, 14, 15, 24, 34, 37, 64])
def test_keepfit_ends_as_the_command_ended(tmp_path, number):
    code = f"import os, signal; {number} == 9 or signal.signal({number}, 0); os.kill(os.getpid(), {number})"
    command = [*RUN, sys.executable, "-S", "-c", code]
    done = subprocess.run(["sh", "-c", 'ulimit -c 0; exec "$@"', "sh", *command], capture_output=True, check=False,
                          env=stage.clean_environment(tmp_path / "runs"))  # fmt: skip
    assert done.returncode == -number, done.stderr


def test_keepfit_leaves_no_core_of_its_own(tmp_path):
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip(f"needs core files in the working directory: core_pattern is {pattern.strip()}")
    command = [*RUN, sys.executable, "-S", "-c", "import os; os.abort()"]
    subprocess.run(["bash", "-c", 'ulimit -c unlimited; exec "$@"', "bash", *command], check=False, cwd=tmp_path,
                   env=stage.clean_environment(tmp_path / "runs"))  # fmt: skip
    assert len(list(tmp_path.glob("core*"))) <= 1


def test_a_hang_up_that_is_ignored_ends_nothing(tmp_path):
    """`nohup keepfit run …`: the hang-up passes by, and a death that comes later is still answered."""
    code = "import time; print('ready', flush=True); time.sleep(1); print('still here')"
    process = stage.start(tmp_path / "runs", [sys.executable, "-c", code], prefix=["nohup"])
    seen = stage.wait_for_output(process, b"ready\n")
    process.send_signal(signal.SIGHUP)
    outcome = stage.finish(process, tmp_path / "runs", seen)
    assert outcome.status == 0 and outcome.stdout.endswith("still here\n")


def test_a_pipe_of_the_commands_ends_with_it_though_keepfit_tidies_up(tmp_path):
    read, write = os.pipe()
    process = subprocess.Popen(
        [*RUN, "bash", "-c", f"echo through >&{write}"],
        pass_fds=[write],
        env=stage.clean_environment(tmp_path / "runs"),
    )
    os.close(write)
    with open(read, "rb") as file:
        assert file.read() == b"through\n"
    assert process.wait(stage.PATIENCE) == 0
