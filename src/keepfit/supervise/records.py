"""Opening a run's record: a new one, or that of an unfinished run which is to go on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets as randomness
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _version
from ..blackbox import index, journal, secrets
from ..blackbox import record as recorded
from ..blackbox.journal import JournalWriter
from ..blackbox.rundir import RunDirectory, all_runs
from ..blackbox.safetensors import Damaged, sha256_of
from ..blackbox.states import Manifest, Vault
from ..machine import procfs
from . import front, scene
from .launch import USAGE, CannotLaunch
from .options import RunOptions


@dataclass
class Record:
    run: RunDirectory
    journal: JournalWriter
    kept: bool  # False: in a temporary place, gone when the run ends
    attempts: int = 0  # of earlier sessions
    hash_seed: str = ""  # what Python's hashes begin with, the same in every attempt
    lock: int | None = None  # held as long as front or judge lives


def open_record(options: RunOptions) -> Record | None:
    """A new run directory; where the runs directory cannot be written, a temporary one, and that is said."""
    try:
        return _new(options.runs)
    except OSError as error:
        front.complain(
            f"no record of this run will be kept: {options.runs} cannot be written "
            f"({error.strerror or error}); the command runs all the same"
        )
    try:
        record = _new(Path(tempfile.mkdtemp(prefix="keepfit-")))
        record.kept = False
        return record
    except OSError:
        return None


def _new(runs: Path) -> Record:
    run = RunDirectory.create(runs)
    written = JournalWriter(run.journal)
    if written.failure:
        raise OSError(None, written.failure)
    return Record(run, written, kept=True, hash_seed=str(randomness.randbelow(2**32)), lock=_lock(run))


def reopen(run: RunDirectory, options: RunOptions) -> Record:
    """The record of an unfinished run; CannotLaunch where somebody else has it, or the script is another."""
    lock = _lock(run)
    if lock is None:
        raise CannotLaunch(f"run {run.id} is in use: another keepfit runs or resumes it", USAGE)
    if recorded.load(run).alive:
        os.close(lock)
        raise CannotLaunch(f"run {run.id} still trains, without its keepfit: end it first", USAGE)
    events, _ = journal.read(run.journal)
    head = _first(events, "run")
    if not options.force_resume and (changed := _changed(head.get("files") or {}, options.argv)):
        os.close(lock)
        raise CannotLaunch(
            f"run {run.id} cannot be resumed: {changed} has changed since (--force-resume overrides)", USAGE
        )
    attempts = [event for event in events if event["event"] == "attempt"]
    if head.get("boot") != procfs.boot_id():  # its times were counted from another boot
        with contextlib.suppress(OSError):
            os.rename(run.ring, f"{run.ring}-{len(attempts)}")
    index.forget(run.path.parent, [run.id])
    return Record(
        run, JournalWriter(run.journal), True, len(attempts), str(head.get("hash_seed") or "0"), lock
    )  # fmt: skip


def write_head(record: Record, options: RunOptions, environment: Mapping[str, str], watched: bool = False) -> None:
    own = procfs.stat(os.getpid())
    record.journal.write(
        "run",
        version=journal.VERSION,
        keepfit=_version.__version__,
        id=record.run.id,
        name=options.name,
        argv=secrets.mask_argv(options.argv),
        cwd=scene.cwd(),
        environment=secrets.allowed_environment(environment),
        pid=os.getpid(),
        start=own.start if own else 0,
        boot=procfs.boot_id(),
        budget=options.memory,
        guards=sorted(options.guards),
        agent="off" if environment.get("KEEPFIT_DISABLE") == "1" else "on",
        watched=watched,
        files={} if watched else _fingerprints(options.argv),
        hash_seed=record.hash_seed,
    )


def unfinished(options: RunOptions) -> RunDirectory | None:
    """The newest run of the same command, directory and name that has not finished, and has something to go on from."""
    argv, cwd = secrets.mask_argv(options.argv), scene.cwd()
    for run in reversed(all_runs(options.runs)):
        events, _ = journal.read(run.journal)
        head = _first(events, "run")
        if (head.get("argv"), head.get("cwd"), head.get("name") or "") != (argv, cwd, options.name):
            continue
        verdicts = [event for event in events if event["event"] == "verdict"]
        if verdicts and verdicts[-1].get("outcome") == "finished":
            return None  # done: the same command once more is a new run
        return run if newest(run) is not None else None
    return None


def newest(run: RunDirectory) -> Manifest | None:
    """The newest state that says what it is of (its files are checked when they are loaded)."""
    for generation in reversed(Vault(run.checkpoints).generations()):
        with contextlib.suppress(Damaged):
            return generation.manifest()
    return None


def _lock(run: RunDirectory) -> int | None:
    """Ours as long as the descriptor is open, here or in the judge; None where somebody has it."""
    fd = os.open(run.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _fingerprints(argv: tuple[str, ...]) -> dict[str, str]:
    """Checksums of the scripts that the command line names."""
    found = {}
    for word in argv[1:]:
        if word.endswith((".py", ".ipynb", ".sh")) and os.path.isfile(word):
            with contextlib.suppress(OSError):
                found[word] = sha256_of(word)
    return found


def _changed(known: Mapping[str, str], argv: tuple[str, ...]) -> str | None:
    now = _fingerprints(argv)
    return next((name for name, checksum in known.items() if now.get(name) != checksum), None)


def _first(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((event for event in events if event["event"] == name), {})
