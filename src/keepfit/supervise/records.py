"""Opening a run's record: a new one, or that of an unfinished run which is to go on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import _version
from ..blackbox import index, journal, secrets, shapes
from ..blackbox import record as recorded
from ..blackbox.folder import Folder, NotOurs
from ..blackbox.journal import JournalWriter
from ..blackbox.rundir import LOCK, RING, STACKS, RunDirectory, all_runs
from ..blackbox.safetensors import Damaged, sha256_of
from ..blackbox.states import Manifest, Vault
from ..machine import procfs
from ..quick import dataclass
from . import scene
from .launch import USAGE, CannotLaunch
from .options import RunOptions
from .words import complain


@dataclass
class Record:
    run: RunDirectory
    journal: JournalWriter
    kept: bool  # False: in a temporary place, gone when the run ends
    attempts: int = 0  # of earlier sessions
    seed: int = 0  # what random generators and Python's hashes begin with, the same in every attempt
    lock: int | None = None  # held as long as front or judge lives


def open_record(options: RunOptions, environment: Mapping[str, str], watched: bool = False) -> Record | None:
    """A new run directory; where the runs directory cannot be written, a temporary one, and that is said.

    None where nothing can be written at all (a limit on the size of files).
    """
    try:
        return _new(options.runs, options, environment, watched)
    except OSError as error:
        why = error.strerror or str(error)
        said = f"it {why}" if isinstance(error, NotOurs) else f"it cannot be written ({why})"
        if not options.quiet:
            complain(f"no record of this run will be kept in {options.runs}: {said}; the command runs all the same")
    import tempfile

    elsewhere = ""
    try:
        elsewhere = tempfile.mkdtemp(prefix="keepfit-")
        record = _new(Path(elsewhere), options, environment, watched)
        record.kept = False
        return record
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(elsewhere)
        return None


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[Folder]:
    """A record for the agent to write to that nobody keeps."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix=prefix) as path:
        folder = Folder.open(path)
        folder.make(STACKS)
        JournalWriter.of(folder).close()
        yield folder


def _new(runs: Path, options: RunOptions, environment: Mapping[str, str], watched: bool) -> Record:
    run = RunDirectory.create(runs)
    journal = JournalWriter.of(run.folder)
    record = Record(run, journal, kept=True, seed=int.from_bytes(os.urandom(8), "little"))
    if not journal.failure:
        write_head(record, options, environment, watched)
    if journal.failure:
        run.remove()
        raise OSError(None, journal.failure)
    record.lock = _lock(run)
    return record


def reopen(run: RunDirectory, options: RunOptions, environment: Mapping[str, str]) -> Record:
    """The record of an unfinished run; CannotLaunch where somebody else has it, or the script is another."""
    try:
        lock = _lock(run)
    except OSError as error:
        raise CannotLaunch(f"run {run.id} cannot be gone on with: {error.strerror}", USAGE) from None
    if lock is None:
        raise CannotLaunch(f"run {run.id} is in use: another keepfit runs or resumes it", USAGE)
    if recorded.load(run).alive:
        os.close(lock)
        raise CannotLaunch(f"run {run.id} still trains, without its keepfit: end it first", USAGE)
    events, _ = journal.read(run.folder)
    head = _first(events, "run")
    if (damage := _all_damaged(run)) is not None:
        os.close(lock)
        raise CannotLaunch(f"run {run.id} cannot be resumed: {damage}; begin anew without --resume", USAGE)
    if not options.force_resume and (difference := _difference(head, options.argv)):
        os.close(lock)
        raise CannotLaunch(f"run {run.id} cannot be resumed: {difference} (--force-resume overrides)", USAGE)
    attempts = [event for event in events if event["event"] == "attempt"]
    if head.get("boot") != procfs.boot_id():  # its times were counted from another boot
        with contextlib.suppress(OSError):
            run.folder.rename(RING, f"{RING}-{len(attempts)}")
    index.forget(run.path.parent, [run.id])
    record = Record(run, JournalWriter.of(run.folder), True, len(attempts), _seed(head), lock)
    write_head(record, options, environment)
    return record


def write_head(record: Record, options: RunOptions, environment: Mapping[str, str], watched: bool = False) -> None:
    own = procfs.stat(os.getpid())
    record.journal.write(
        "run",
        version=journal.VERSION,
        keepfit=_version.__version__,
        id=record.run.id,
        name=options.name,
        argv=secrets.mask_argv(options.argv),
        words=secrets.mask_argv(options.words),
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
        seed=f"{record.seed:x}",
        inode=record.run.folder.inode,
    )


def unfinished(options: RunOptions) -> RunDirectory | None:
    """The newest run of the same command, directory and name that has not finished, and has saved something."""
    argv, cwd = secrets.mask_argv(options.argv), scene.cwd()
    for run in reversed(all_runs(options.runs)):
        try:
            events, _ = journal.read(run.folder)
        except OSError:
            continue
        head = _first(events, "run")
        if (head.get("argv"), head.get("cwd"), head.get("name") or "") != (argv, cwd, options.name):
            continue
        verdicts = [event for event in events if event["event"] == "verdict"]
        if verdicts and verdicts[-1].get("outcome") == "finished":
            return None  # done: the same command once more is a new run
        return run if Vault(run.checkpoints).generations() else None
    return None


def was_copied(run: RunDirectory) -> bool:
    """Whether its record lies somewhere else than where it was made: who knows, then, who made it."""
    events, _ = journal.read(run.folder)
    return _first(events, "run").get("inode") != run.folder.inode


def newest(run: RunDirectory) -> Manifest | None:
    """The newest state that says what it is of (its files are checked when they are loaded)."""
    for generation in reversed(Vault(run.checkpoints).generations()):
        with contextlib.suppress(Damaged):
            return generation.manifest()
    return None


def _all_damaged(run: RunDirectory) -> str | None:
    """Why nothing of what was saved can be gone on from, in words; None where something can, or nothing was saved."""
    why = ""
    generations = Vault(run.checkpoints).generations()
    for generation in reversed(generations):
        try:
            generation.verified()
            return None
        except Damaged as damage:
            why = why or f"state {generation.number}: {damage}"
    if not generations:
        return None
    many = f"all of its {len(generations)} saved states are" if len(generations) > 1 else "its only saved state is"
    return f"{many} damaged ({why})"


def is_in_use(run: RunDirectory) -> bool:
    """Whether its command lives, or a keepfit has it."""
    try:
        lock = _lock(run)
    except OSError:
        return recorded.load(run).alive
    if lock is None:
        return True
    os.close(lock)
    return recorded.load(run).alive


def _lock(run: RunDirectory) -> int | None:
    """Ours as long as the descriptor is open, here or in the judge; None where somebody has it."""
    fd = run.folder.open_file(LOCK, os.O_RDWR | os.O_CREAT)
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
            with contextlib.suppress(OSError), open(word, "rb") as file:
                found[word] = sha256_of(file)
    return found


def _difference(head: Mapping[str, Any], argv: tuple[str, ...]) -> str | None:
    """In words, what is not as it was when the run began; None where the scripts are the same."""
    known, now = shapes.mapping(head.get("files")), _fingerprints(argv)
    was, is_now = shlex.join(shapes.texts(head.get("argv"))), shlex.join(secrets.mask_argv(argv))
    for name, checksum in known.items():
        if name not in argv:
            return f"it ran `{was}`, and this is `{is_now}`"
        if name not in now:
            return f"{name} is not there any more"
        if now[name] != checksum:
            return f"{name} has changed since"
    if set(now) - set(known):
        return f"it ran `{was}`, and this is `{is_now}`"
    return None


def _seed(head: Mapping[str, Any]) -> int:
    """What is none was not written by us, and is handed to nobody."""
    for name, base in (("seed", 16), ("hash_seed", 10)):  # the second is of keepfit 0.1.0
        with contextlib.suppress(ValueError):
            return int(shapes.text(head.get(name))[:20], base) % 2**64
    return 0


def _first(events: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((event for event in events if event["event"] == name), {})
