"""Real settings for victims: cgroups, tiny file systems, terminals, bystanders. Each is removed after use."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VICTIMS = Path(__file__).parent / "victims"
KEEPFIT = [sys.executable, "-m", "keepfit"]
MIB = 1 << 20
# Seconds for what should take a few: a guard against hanging, never a measure of speed. A machine whose host is
# busy was seen to need fourteen times the usual.
PATIENCE = 500.0


# --- what this machine allows -----------------------------------------------------------------------


def own_memory_cgroup() -> str | None:
    """Directory of our own memory cgroup (v1 or v2), or None."""
    from keepfit.machine import cgroup

    own = cgroup.placement().own
    return own.directory if own else None


def why_no_cgroup() -> str | None:
    """None where a child memory cgroup with a limit can be made, else the reason."""
    try:
        with memory_cgroup(64 * MIB):
            return None
    except OSError as error:
        return f"no memory cgroup can be made here: {error.strerror}"


def why_no_tensorflow() -> str | None:
    return _why_no_module("tensorflow", "TensorFlow")


def why_no_jax() -> str | None:
    return _why_no_module("jax", "JAX")


def _why_no_module(name: str, product: str) -> str | None:
    return None if importlib.util.find_spec(name) else f"{product} is not installed"


def why_no_mounts() -> str | None:
    if os.getuid() != 0:
        return "mounting needs root"
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return None if done.returncode == 0 else "mount namespaces are not permitted here"


def why_no_throttle() -> str | None:
    if os.getuid() != 0 or not shutil.which("losetup"):
        return "a loop device needs root and losetup"
    if not os.path.isdir("/sys/fs/cgroup/blkio"):
        return "no blkio cgroup (v1) is mounted"
    return None


WHY_NOT = {
    "cgroup": why_no_cgroup,
    "tensorflow": why_no_tensorflow,
    "jax": why_no_jax,
    "mounts": why_no_mounts,
    "throttle": why_no_throttle,
}


# --- settings ---------------------------------------------------------------------------------------


def _make_cgroup(limit: int, below: str | None) -> str:
    """A child memory cgroup: below the one named, else below our own or the next level up that allows it."""
    from keepfit.machine import cgroup

    parents = [below] if below else [level.directory for level in cgroup.placement().levels]
    refused: OSError = OSError(None, "no memory cgroup is mounted")
    for parent in parents:
        directory = os.path.join(parent, f"keepfit-test-{uuid.uuid4().hex[:8]}")
        try:
            if below and os.path.exists(os.path.join(parent, "cgroup.subtree_control")):
                Path(parent, "cgroup.subtree_control").write_text("+memory")
            os.mkdir(directory)
            v1 = os.path.exists(os.path.join(directory, "memory.limit_in_bytes"))
            Path(directory, "memory.limit_in_bytes" if v1 else "memory.max").write_text(str(limit))
            return directory
        except OSError as error:
            refused = error
            with contextlib.suppress(OSError):
                os.rmdir(directory)
    raise refused


@contextlib.contextmanager
def memory_cgroup(limit: int, below: str | None = None) -> Iterator[str]:
    """A child memory cgroup with a limit; ended and removed after use."""
    directory = _make_cgroup(limit, below)
    try:
        yield directory
    finally:
        for folder, _, _ in os.walk(directory, topdown=False):
            _remove_cgroup(folder)


def _remove_cgroup(directory: str) -> None:
    with contextlib.suppress(OSError):
        for pid in Path(directory, "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.rmdir(directory)
            return
        except FileNotFoundError:
            return
        except OSError:
            select.select([], [], [], 0.05)


def entering(directory: str) -> list[str]:
    """A command prefix that steps into a cgroup first."""
    return ["sh", "-c", f'echo 0 > "{directory}/cgroup.procs" && exec "$@"', "sh"]


@contextlib.contextmanager
def small_file_system(path: Path, size: str) -> Iterator[Path]:
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)


def with_small_shm(size: str) -> list[str]:
    """A command prefix that has a tiny /dev/shm of its own."""
    script = f'mount -t tmpfs -o size={size} tmpfs /dev/shm && exec "$@"'
    return ["unshare", "-m", "sh", "-c", script, "sh"]


@contextlib.contextmanager
def throttled_device(directory: Path, size: int, bytes_per_second: int) -> Iterator[tuple[str, list[str]]]:
    """A loop device, and a prefix that steps into a blkio cgroup which reads it at a trickle."""
    backing = directory / "device.img"
    with open(backing, "wb") as file:
        file.truncate(size)
    device = subprocess.run(
        ["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=True
    ).stdout.strip()
    group = f"/sys/fs/cgroup/blkio/keepfit-test-{uuid.uuid4().hex[:8]}"
    try:
        os.mkdir(group)
        number = os.stat(device).st_rdev
        rule = f"{os.major(number)}:{os.minor(number)} {bytes_per_second}"
        Path(group, "blkio.throttle.read_bps_device").write_text(rule)
        yield device, entering(group)
    finally:
        with contextlib.suppress(OSError):
            Path(group, "blkio.throttle.read_bps_device").write_text(f"{os.major(number)}:{os.minor(number)} 0")
        _remove_cgroup(group)
        subprocess.run(["losetup", "-d", device], check=False)


# --- running keepfit ---------------------------------------------------------------------------------


def clean_environment(runs: Path, **more: str) -> dict[str, str]:
    """Ours, without what would hide a fault: PYTHONUNBUFFERED must be keepfit's own doing."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KEEPFIT_")}
    environment.pop("PYTHONUNBUFFERED", None)
    return {**environment, "KEEPFIT_RUNS": str(runs), "TF_CPP_MIN_LOG_LEVEL": "2", **more}


@dataclass
class Outcome:
    """What came of one supervised run."""

    status: int  # as a shell calls it: 128 and the signal, where one ended it
    stdout: str
    stderr: str
    runs: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def said(self) -> list[str]:
        """Lines on stderr, but for those with which TensorFlow tells, as it is loaded, of oneDNN, CUDA and the CPU."""
        sources = r"(?:port|cuda\w*|cpu_feature_guard)\.cc:\d+\]"
        loading = re.compile(rf"WARNING: All log messages before absl|[IE]\d{{4}} .* {sources}|To enable the following")
        return [line for line in self.stderr.splitlines() if not loading.match(line)]

    def why(self, run: str = "latest") -> dict[str, Any]:
        return keepfit_json(self.runs, "why", run)

    @property
    def directory(self) -> Path:
        return sorted(path for path in self.runs.iterdir() if path.is_dir())[-1]

    @property
    def folder(self) -> Any:
        """The newest run's, as keepfit opens it."""
        from keepfit.blackbox.folder import Folder

        return Folder.open(str(self.directory))

    def events(self, name: str) -> list[dict[str, Any]]:
        from keepfit.blackbox import journal

        events, _ = journal.read(self.folder)
        return [event for event in events if event["event"] == name]


def keepfit_json(runs: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [*KEEPFIT, *words, "--json"], capture_output=True, text=True, env=clean_environment(runs), check=False
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


def victim(name: str, *args: str) -> list[str]:
    path = str(VICTIMS / name)
    return [path, *args] if name.endswith(".sh") else [sys.executable, path, *args]


def start(
    runs: Path, command: Sequence[str], options: Sequence[str] = (), prefix: Sequence[str] = (), **more: str
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*prefix, *KEEPFIT, "run", *options, "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(runs, **more),
        start_new_session=True,
    )


def wait_for_output(process: subprocess.Popen[bytes], word: bytes) -> bytes:
    """Everything printed up to and including the word."""
    assert process.stdout is not None
    fd, seen, deadline = process.stdout.fileno(), b"", time.monotonic() + PATIENCE
    while word not in seen:
        left = deadline - time.monotonic()
        assert left > 0, f"{word!r} did not come within {PATIENCE} s; seen: {seen[-500:]!r}"
        if select.select([fd], [], [], left)[0]:
            chunk = os.read(fd, 65536)
            assert chunk, f"the output ended before {word!r}; seen: {seen[-500:]!r}"
            seen += chunk
    return seen


def finish(process: subprocess.Popen[bytes], runs: Path, seen: bytes = b"") -> Outcome:
    out, err = process.communicate(timeout=PATIENCE)
    status = process.returncode
    return Outcome(
        status if status >= 0 else 128 - status,
        (seen + out).decode(errors="replace"),
        err.decode(errors="replace"),
        runs,
    )


def beside(folder: Path, command: Sequence[str]) -> Callable[[], str]:
    """A command without keepfit, begun while something else runs; called, it is waited for and says what it printed."""
    folder.mkdir(parents=True, exist_ok=True)
    output, errors = folder / "stdout.txt", folder / "stderr.txt"
    with open(output, "w") as out, open(errors, "w") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=clean_environment(folder / "no-runs"))

    def wait() -> str:
        assert process.wait(PATIENCE) == 0, errors.read_text()[-3000:]
        return output.read_text()

    return wait


def run(
    runs: Path, command: Sequence[str], options: Sequence[str] = (), prefix: Sequence[str] = (), **more: str
) -> Outcome:
    return finish(start(runs, command, options, prefix, **more), runs)


def command_pid(runs: Path) -> int:
    """The pid of the command of the newest run, once it has been launched."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, IndexError, ValueError):
            directory = sorted(path for path in runs.iterdir() if path.is_dir())[-1]
            for line in (directory / "journal.jsonl").read_text().splitlines():
                event = json.loads(line)
                if event["event"] == "attempt":
                    return int(event["pid"])
        select.select([], [], [], 0.02)
    raise AssertionError("the command was not launched")


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_ended(pid: int) -> bool:
    """Gone, or a zombie that its new parent has not looked after yet."""
    from keepfit.machine import procfs

    found = procfs.stat(pid)
    return found is None or found.state in "ZX"


def wait_until(condition: Any, what: str = "the condition") -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {PATIENCE} s"
        select.select([], [], [], 0.02)
