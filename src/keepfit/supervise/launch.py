"""Launching the command: finding it, giving it its descriptors, its place and its environment."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import shutil
import signal
import stat
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from .. import agent

BOOT = str(Path(agent.__file__).parent / "boot")

NOT_FOUND = 127
NOT_EXECUTABLE = 126
USAGE = 64
STUCK_EVERY = 0.2  # seconds between two looks at a child that has not reached exec

# Python ignores these in itself; the command must see them as a shell would give them.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)


class CannotLaunch(Exception):
    """The command cannot be started: one clear line, and the exit status a shell would give."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def resolve(command: str, environment: Mapping[str, str]) -> str:
    """The file that will be executed, looked up as a shell does."""
    if os.sep in command:
        if not os.path.exists(command):
            raise CannotLaunch(f"{command}: no such file", NOT_FOUND)
        if os.path.isdir(command):
            raise CannotLaunch(f"{command}: is a directory, a program was expected", NOT_EXECUTABLE)
        if not os.access(command, os.X_OK) or not stat.S_ISREG(os.stat(command).st_mode):
            raise CannotLaunch(f"{command}: not executable (try: python {command})", NOT_EXECUTABLE)
        return command
    found = shutil.which(command, path=environment.get("PATH"))
    if found is None:
        raise CannotLaunch(f"{command}: command not found on PATH", NOT_FOUND)
    return found


def trainee_environment(
    environment: Mapping[str, str],
    record: str | None = None,
    pulse: str | None = None,
    states: str | None = None,
    resume: str = "",
    hash_seed: str = "",
    attempt: int = 1,
    numbers: Mapping[str, object] | None = None,
    lean: bool = False,
) -> dict[str, str]:
    """The user's environment, with the agent's way in and unbuffered output.

    Through a pipe Python holds back up to 8 KiB of output, which SIGKILL destroys; PYTHONUNBUFFERED lets
    the last line survive. Sets come in the same order in every attempt. `lean`: an attempt after a death for
    want of memory; malloc's arenas, one a thread, each keep what was freed in them (an LSTM's first step:
    380 MiB, with a single arena 357). A value the user set stays.
    """
    changed = dict(environment)
    changed.setdefault("PYTHONUNBUFFERED", "1")
    for name in ("RECORD", "PULSE", "STATES", "RESUME", "NUMBERS", "LEAN"):
        changed.pop(f"KEEPFIT_{name}", None)  # of a keepfit around this one
    if record is None or environment.get("KEEPFIT_DISABLE") == "1":
        return changed
    if lean:
        changed["KEEPFIT_LEAN"] = "1"
        changed.setdefault("MALLOC_ARENA_MAX", "1")
    path = environment.get("PYTHONPATH")
    changed["PYTHONPATH"] = BOOT + (os.pathsep + path if path else "")
    changed["KEEPFIT_RECORD"] = record
    if pulse is not None:
        changed["KEEPFIT_PULSE"] = pulse
    if numbers is not None:
        changed["KEEPFIT_NUMBERS"] = json.dumps(numbers)
    if states is not None:
        changed["KEEPFIT_STATES"] = states
        changed["KEEPFIT_RESUME"] = resume
        changed["KEEPFIT_ATTEMPT"] = str(attempt)
        changed["KEEPFIT_FRONT"] = str(os.getpid())
        changed.setdefault("PYTHONHASHSEED", hash_seed)
    return changed


@dataclass(frozen=True)
class Wiring:
    """The command's descriptors, and how it is grouped.

    `terminal`: the slave of a pseudo-terminal of its own, of which it becomes the session leader.
    `own_group`: without a terminal about, a process group of its own, so that a signal to ours reaches it
    once, through us.
    """

    stdin: int
    stdout: int
    stderr: int
    terminal: int | None = None
    own_group: bool = True

    @property
    def shares_our_group(self) -> bool:
        """Whether what is typed at our terminal reaches the command by itself."""
        return self.terminal is None and not self.own_group


def launch(
    path: str,
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    wiring: Wiring,
    prepare: Callable[[], None],
    stuck: Callable[[], str | None] = lambda: None,
) -> int:
    """Fork and execute; returns the pid once exec has succeeded, else raises CannotLaunch.

    `prepare` runs in the child just before exec (oom_score_adj, cgroup). `stuck` says why the child will
    never get that far, if it will not. Must be called while this process has a single thread.
    """
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            _become(path, argv, environment, wiring, prepare)
        except OSError as error:
            os.write(report_write, str(error.errno or errno.EINVAL).encode())
        finally:
            os._exit(NOT_EXECUTABLE)
    os.close(report_write)
    while not select.select([report_read], [], [], STUCK_EVERY)[0]:
        if why := stuck():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(report_read)
            raise CannotLaunch(why, USAGE)
    with open(report_read, "rb") as file:
        report = file.read()
    if report:
        os.waitpid(pid, 0)
        raise _refused(argv[0], int(report))
    return pid


def become(argv: tuple[str, ...], environment: Mapping[str, str]) -> NoReturn:
    """The command, in this process' place: a keepfit around it does what is to be done."""
    path = resolve(argv[0], environment)
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(path, list(argv), dict(environment))
    except OSError as error:
        raise _refused(argv[0], error.errno or errno.EINVAL) from None


def _refused(command: str, number: int) -> CannotLaunch:
    """By the kernel, with that error."""
    status = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE
    hint = " (no #! line?)" if number == errno.ENOEXEC else ""
    return CannotLaunch(f"{command}: {os.strerror(number)}{hint}", status)


def _become(
    path: str,
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    wiring: Wiring,
    prepare: Callable[[], None],
) -> None:
    if wiring.terminal is not None:
        os.setsid()
        fcntl.ioctl(wiring.terminal, termios.TIOCSCTTY, 0)
    elif wiring.own_group:
        os.setpgid(0, 0)
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    prepare()
    for source, target in ((wiring.stdin, 0), (wiring.stdout, 1), (wiring.stderr, 2)):
        if source == target:
            os.set_inheritable(source, True)
        else:
            os.dup2(source, target, inheritable=True)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execve(path, list(argv), dict(environment))
