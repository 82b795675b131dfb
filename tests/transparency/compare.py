"""One command line, run plainly and under keepfit, and all that can be seen of it from outside."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import stage
from .differences import BY_NAME
from .lines import PY, Line

# What is on PATH after `pip install`: keepfit as people start it.
LAUNCHER = Path(sys.executable).with_name("keepfit")
LANGUAGE = {"LANG": "C.UTF-8", "TERM": "xterm"}


@dataclass(frozen=True)
class Seen:
    """`status`: minus the signal, where one ended it."""

    status: int
    stdout: bytes
    stderr: bytes
    files: tuple[tuple[str, bytes], ...]

    def without(self, differences: Sequence[str]) -> Seen:
        out, err = self.stdout, self.stderr
        for name in differences:
            out, err = BY_NAME[name].undo(out), BY_NAME[name].undo(err)
        return Seen(self.status, out, err, self.files)


def both(line: Line, folder: Path) -> tuple[Seen, Seen]:
    """(plainly, under keepfit), in the same place, one after the other."""
    runs = folder / "runs"
    plain = _seen(line, [], folder)
    return plain, _seen(line, [str(LAUNCHER), "run", "--quiet", "--runs-dir", str(runs), "--"], folder)


def _seen(line: Line, prefix: list[str], folder: Path) -> Seen:
    place = folder / "place"
    place.mkdir()
    try:
        for name, content in line.files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(0o755 if name == "run" else 0o644)
        words = [word.replace(PY, sys.executable) for word in line.words]
        words = [*prefix, *words]
        if line.shell_before:
            words = ["bash", "-c", f'{line.shell_before}; exec "$@"', "bash", *words]
        status, out, err = (_in_terminal if line.how == "terminal" else _with_pipes)(line, words, place)
        return Seen(status, out, err, tuple(_files(place)))
    finally:
        _remove(place)


def _environment(line: Line, place: Path) -> dict[str, str]:
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**known, **LANGUAGE, "PWD": str(place), **line.environment}


def _with_pipes(line: Line, words: list[str], place: Path) -> tuple[int, bytes, bytes]:
    with contextlib.ExitStack() as stack:
        out, err = _streams(line, place, stack)
        if line.stdin is None:
            words = ["sh", "-c", 'exec "$@" <&-', "sh", *words]
        process = subprocess.Popen(
            words, cwd=place, env=_environment(line, place), stdin=subprocess.PIPE, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
        with contextlib.suppress(BrokenPipeError):
            got, said = process.communicate(line.stdin or b"", timeout=stage.PATIENCE)
    if line.how == "file":
        got = (place.parent / "out").read_bytes()
    return process.returncode, got or b"", said or b""


def _streams(line: Line, place: Path, stack: contextlib.ExitStack) -> tuple[object, object]:
    if line.how == "merged":
        return subprocess.PIPE, subprocess.STDOUT
    if line.how == "null":
        return subprocess.DEVNULL, subprocess.DEVNULL
    if line.how == "file":
        return stack.enter_context(open(place.parent / "out", "wb")), subprocess.STDOUT
    return subprocess.PIPE, subprocess.PIPE


def _in_terminal(line: Line, words: list[str], place: Path) -> tuple[int, bytes, bytes]:
    """What is shown; `line.stdin` is typed, behind a word that is waited for (`word>keys`) where there is one."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(place)
        with contextlib.suppress(OSError):
            os.execvpe(words[0], words, _environment(line, place))
        os._exit(127)
    awaited, arrow, keys = (line.stdin or b"").partition(b">")
    if not arrow:
        awaited, keys = b"", line.stdin or b""
    screen, deadline = b"", time.monotonic() + stage.PATIENCE
    while time.monotonic() < deadline:
        if keys and awaited in screen:
            os.write(fd, keys)
            keys = b""
        if select.select([fd], [], [], 0.05)[0]:
            try:
                shown = os.read(fd, 65536)
            except OSError:
                break
            if not shown:
                break
            screen += shown
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), screen, b""


def _files(place: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(place.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyz":
            path.chmod(0o600)
            yield str(path.relative_to(place)), path.read_bytes()


def _remove(place: Path) -> None:
    """With what a daemon may still be writing to it."""
    deadline = time.monotonic() + 10
    while place.exists() and time.monotonic() < deadline:
        shutil.rmtree(place, ignore_errors=True)


def end_of(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
