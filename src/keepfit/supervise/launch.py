"""Launching the command: finding it, giving it its descriptors, its place and its environment."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import signal
import stat
import termios
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from .. import agent
from ..quick import dataclass

BOOT = str(Path(agent.__file__).parent / "boot")

NOT_FOUND = 127
NOT_EXECUTABLE = 126
USAGE = 64
SHELL = "/bin/sh"
STUCK_EVERY = 0.2  # seconds between two looks at a child that has not reached exec

# Python ignores these in itself: whether they were ignored before, somebody else must tell.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


@dataclass(frozen=True)
class Before:
    """What was true before Python came, and cannot be seen any more."""

    ignored: int = 0  # mask of the signals that were ignored
    closed: frozenset[int] = frozenset()  # of stdin, stdout and stderr: something stands in their place now


@dataclass(frozen=True)
class Inherited:
    """What the command is to be started with as keepfit was: how it meets signals, how many files it may open."""

    blocked: frozenset[int] = frozenset()
    ignored: frozenset[int] = frozenset()
    files: tuple[int, int] | None = None  # soft and hard limit, where ours was changed
    closed: frozenset[int] = frozenset()  # of stdin, stdout and stderr
    others: frozenset[int] = frozenset()  # descriptors beyond these: the command's, and nobody else's

    @classmethod
    def of_this_process(cls, before: Before) -> Inherited:
        blocked = frozenset(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        known = [number for number in range(1, signal.NSIG) if _disposition(number) is signal.SIG_IGN]
        given = [number for number in _IGNORED_BY_PYTHON if before.ignored >> (number - 1) & 1]
        met = frozenset(map(int, set(known) - set(_IGNORED_BY_PYTHON) | set(given)))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(blocked, met, (soft, hard), before.closed, frozenset(_open_for_children()))

    @property
    def open_files(self) -> int | None:
        return self.files[0] if self.files is not None else None

    def let_go(self) -> None:
        """In a process of ours that is not the command: whoever reads a pipe of the command's must see its end."""
        for fd in self.others:
            with contextlib.suppress(OSError):
                os.close(fd)

    def take(self) -> None:
        """In the child, before exec."""
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_IGN if number in self.ignored else signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        if self.files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.files)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)


def _open_for_children() -> Iterator[int]:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the directory's own
            if int(name) > 2 and os.get_inheritable(int(name)):
                yield int(name)


def _disposition(number: int) -> object:
    try:
        return signal.getsignal(number)
    except ValueError:  # the C library's own
        return None


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
    seen = ""
    for folder in os.get_exec_path(environment):
        found = os.path.join(folder, command)
        if os.path.isfile(found):
            if os.access(found, os.X_OK):
                return found
            seen = seen or found
    if seen:
        raise CannotLaunch(f"{command}: {seen} is not executable", NOT_EXECUTABLE)
    raise CannotLaunch(f"{command}: command not found on PATH", NOT_FOUND)


def trainee_environment(
    environment: Mapping[str, str],
    record: str | None = None,
    pulse: str | None = None,
    states: str | None = None,
    resume: str = "",
    seed: int = 0,
    attempt: int = 1,
    numbers: Mapping[str, object] | None = None,
    lean: bool = False,
    isolated: bool = False,
) -> dict[str, str]:
    """The user's environment, with the agent's way in and unbuffered output.

    Through a pipe Python holds back up to 8 KiB of output, which SIGKILL destroys; PYTHONUNBUFFERED lets
    the last line survive. Sets come in the same order in every attempt. `lean`: an attempt after a death for
    want of memory; malloc's arenas, one a thread, each keep what was freed in them (an LSTM's first step:
    380 MiB, with a single arena 357). A value the user set stays. `isolated`: a Python that would not start the agent,
    and would have its folder on its path all the same.
    """
    changed = dict(environment)
    changed.setdefault("PYTHONUNBUFFERED", "1")
    for name in ("RECORD", "PULSE", "STATES", "RESUME", "NUMBERS", "LEAN", "ATTEMPT", "FRONT", "SEED"):
        changed.pop(f"KEEPFIT_{name}", None)  # of a keepfit around this one
    if record is None or environment.get("KEEPFIT_DISABLE") == "1":
        return changed
    if lean:
        changed["KEEPFIT_LEAN"] = "1"
        changed.setdefault("MALLOC_ARENA_MAX", "1")
    if not isolated:
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
        changed["KEEPFIT_SEED"] = f"{seed:x}"
        changed.setdefault("PYTHONHASHSEED", str(seed % 2**32))
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
    given: Inherited,
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
            _become(path, argv, environment, wiring, given, prepare)
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


def become(argv: tuple[str, ...], environment: Mapping[str, str], given: Inherited) -> NoReturn:
    """The command, in this process' place: a keepfit around it does what is to be done."""
    path = resolve(argv[0], environment)
    given.take()
    try:
        execute(path, argv, environment)
    except OSError as error:
        raise _refused(argv[0], error.errno or errno.EINVAL) from None


def _refused(command: str, number: int) -> CannotLaunch:
    """By the kernel, with that error."""
    status = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE
    return CannotLaunch(f"{command}: {os.strerror(number)}", status)


def _become(
    path: str,
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    wiring: Wiring,
    given: Inherited,
    prepare: Callable[[], None],
) -> None:
    if wiring.terminal is not None:
        os.setsid()
        fcntl.ioctl(wiring.terminal, termios.TIOCSCTTY, 0)
    elif wiring.own_group:
        os.setpgid(0, 0)
    prepare()
    for source, target in ((wiring.stdin, 0), (wiring.stdout, 1), (wiring.stderr, 2)):
        if source == target:
            os.set_inheritable(source, True)
        else:
            os.dup2(source, target, inheritable=True)
    for fd in given.closed:
        os.close(fd)
    given.take()
    execute(path, argv, environment)


def execute(path: str, argv: tuple[str, ...], environment: Mapping[str, str]) -> NoReturn:
    """The program, as a shell would execute it: a script that names no interpreter is the shell's own."""
    try:
        os.execve(path, list(argv), dict(environment))
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    os.execve(SHELL, [SHELL, path, *argv[1:]], dict(environment))
