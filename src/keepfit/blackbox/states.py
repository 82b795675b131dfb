"""Saved states of a training: one directory a generation, written beside, flushed, and renamed when it is whole.

    checkpoints/
      model-1.json        the model's own configuration, where it has one
      000012/             a generation
        manifest.json     what it is of, where the training stood, and the checksums of its files
        state.safetensors every variable, and what random generators and callbacks hold
        train.index, …    the position in the data, as TensorFlow writes it

Standard library only: the agent writes and reads these, the supervisor lists and verifies them. A generation
whose manifest or files are not what was written is skipped for the one before it, and never loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from . import safetensors
from .safetensors import Damaged

FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.safetensors"
KEPT = 2  # generations of a `fit` in progress
SPARE = 64 << 20  # bytes of disk that checkpoints leave free
SPARE_SHARE = 0.02  # or this share of a small disk
ENDS_SHARE = 0.1  # of the disk, for the ends of trainings that finished; one that is gone is trained again

Write = Callable[[BinaryIO], str]  # writes a file and returns its SHA-256


class NoRoom(OSError):
    """The disk has not enough room for another generation."""


@dataclass(frozen=True)
class Manifest:
    """What a generation holds. `fit` counts the trainings of the script, from 1."""

    number: int
    fit: int
    kind: str = "step"  # step: a training in progress | end: one that finished
    epoch: int = 0  # the epoch to go on in
    batch: int = 0  # and the batch in it, both counted from 0
    step: int = 0  # batches trained so far, in this `fit`
    written: float = 0.0  # wall clock
    process: str = ""  # which one of the run's processes: its command line, and the how-manieth
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name -> bytes, sha256
    state: Mapping[str, Any] = field(default_factory=dict)  # what is no tensor
    format: int = FORMAT

    @property
    def bytes(self) -> int:
        return sum(int(known["bytes"]) for known in self.files.values())


def encode(manifest: Manifest) -> bytes:
    """JSON, with a checksum of its own in the last line."""
    known = {name: getattr(manifest, name) for name in Manifest.__dataclass_fields__}
    text = json.dumps(known, separators=(",", ":"), allow_nan=False)
    return f'{{"manifest":{text},\n"sha256":"{hashlib.sha256(text.encode()).hexdigest()}"}}\n'.encode()


def decode(content: bytes) -> Manifest:
    try:
        document = json.loads(content)
        known, checksum = document["manifest"], document["sha256"]
        text = json.dumps(known, separators=(",", ":"), allow_nan=False)
        if int(known["format"]) > FORMAT:
            raise Damaged(f"format {known['format']}, of a newer keepfit; this one reads up to {FORMAT}")
        if hashlib.sha256(text.encode()).hexdigest() != checksum:
            raise Damaged("the manifest's checksum is wrong")
        return Manifest(**known)
    except Damaged:
        raise
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Damaged(f"not a manifest ({type(error).__name__}: {error})") from None


class Generation:
    """One directory of a vault."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = int(path.name)

    def manifest(self) -> Manifest:
        """What it says of itself; Damaged where that cannot be believed."""
        try:
            content = (self.path / MANIFEST).read_bytes()
        except OSError as error:
            raise Damaged(f"no manifest ({error.strerror})") from None
        manifest = decode(content)
        if manifest.number != self.number:
            raise Damaged(f"its manifest is that of generation {manifest.number}")
        return manifest

    def verified(self) -> Manifest:
        """The manifest, after every file was read and found as it was written."""
        manifest = self.manifest()
        for name, known in manifest.files.items():
            path = self.path / os.path.basename(name)
            try:
                found = os.stat(path).st_size
                if found != known["bytes"]:
                    raise Damaged(f"{name}: {found} bytes where {known['bytes']} were written")
                if safetensors.sha256_of(str(path)) != known["sha256"]:
                    raise Damaged(f"{name}: its checksum is wrong")
            except OSError as error:
                raise Damaged(f"{name}: {error.strerror}") from None
        return manifest

    def size(self) -> int:
        total = 0
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.path):
                total += entry.stat().st_size
        return total

    def remove(self) -> None:
        """Under another name first: half a generation is never seen as one."""
        doomed = self.path.with_name(self.path.name + ".old")
        with contextlib.suppress(OSError):
            os.rename(self.path, doomed)
            shutil.rmtree(doomed, ignore_errors=True)


class Vault:
    """All saved states of one run."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def generations(self) -> list[Generation]:
        """Oldest first; whether they are good is not known yet."""
        try:
            names = sorted(os.listdir(self.path))
        except OSError:
            return []
        return [Generation(self.path / name) for name in names if name.isdigit()]

    def good(self) -> Iterator[tuple[Generation, Manifest]]:
        """Those that are as they were written, newest first."""
        for generation in reversed(self.generations()):
            with contextlib.suppress(Damaged):
                yield generation, generation.verified()

    def keep(self, name: str, content: str) -> None:
        """A file beside the generations, written whole or not at all."""
        self._make()
        beside = self.path / f"{name}.new"
        beside.write_text(content)
        os.replace(beside, self.path / name)

    def draft(self, number: int, needs: int) -> Draft:
        """Room for a new generation, or an OSError.

        `needs` bytes must be free beforehand: a disk that fills up in the middle hurts others as well.
        """
        self._make()
        self._check_room(needs)
        return Draft(self.path, number)

    def _make(self) -> None:
        """Not the run around it: a record that somebody has removed stays removed."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)

    def _check_room(self, needs: int) -> None:
        disk = os.statvfs(self.path)
        free = disk.f_bavail * disk.f_frsize
        spare = min(SPARE, int(SPARE_SHARE * disk.f_blocks * disk.f_frsize))
        if free < needs + spare:
            raise NoRoom(28, f"{needs} bytes wanted, {max(0, free - spare)} free")

    def prune(self, process: str = "", kept: int = KEPT) -> None:
        """Of a process' training in progress the newest `kept` stay; of finished ones their end."""
        for leftover in self.path.glob("*.old"):
            shutil.rmtree(leftover, ignore_errors=True)
        present = self.generations()
        steps, ends = [], []
        for generation in present:
            try:
                manifest = generation.manifest()
            except Damaged:
                if generation is not present[-1]:  # superseded, whatever it was
                    generation.remove()
                continue
            if manifest.kind == "end":
                ends.append(generation)
            elif manifest.process == process:
                steps.append(generation)
        for generation in (*steps[: max(0, len(steps) - kept)], *self._too_many(ends)):
            generation.remove()

    def _too_many(self, ends: list[Generation]) -> list[Generation]:
        """The oldest of the ends, where all of them would take more than their share of the disk."""
        disk = os.statvfs(self.path)
        room = int(ENDS_SHARE * disk.f_blocks * disk.f_frsize)
        for kept, generation in enumerate(reversed(ends)):
            room -= generation.size()
            if room < 0 and kept:
                return ends[: len(ends) - kept]
        return []

    def thin(self) -> None:
        """The training has finished: its last state stays, what led to it goes."""
        for generation in self.generations()[:-1]:
            generation.remove()


class Draft:
    """A generation that is being written: beside the others, and not seen as one until it is whole."""

    def __init__(self, vault: Path, number: int) -> None:
        self.number = number
        self._vault = vault
        self.path = vault / f"{number:06d}.new"
        shutil.rmtree(self.path, ignore_errors=True)
        os.mkdir(self.path, 0o700)
        self._files: dict[str, dict[str, Any]] = {}

    def write(self, name: str, write: Write) -> None:
        with open(self.path / name, "xb") as file:
            checksum = write(file)
            _flush(file)
            self._files[name] = {"bytes": file.tell(), "sha256": checksum}

    def adopt(self) -> None:
        """Files that somebody else has put there."""
        for name in sorted(os.listdir(self.path)):
            if name not in self._files:
                with open(self.path / name, "rb+") as file:
                    checksum = safetensors.sha256_of(str(self.path / name))
                    _flush(file)
                    self._files[name] = {"bytes": os.fstat(file.fileno()).st_size, "sha256": checksum}

    def complete(self, manifest: Manifest, process: str = "") -> Manifest:
        """Manifest, flush, rename: from now on it is a generation."""
        whole = replace(manifest, number=self.number, process=process, files=dict(self._files))
        with open(self.path / MANIFEST, "xb") as file:
            file.write(encode(whole))
            _flush(file)
        _flush_directory(self.path)
        os.rename(self.path, self._vault / f"{self.number:06d}")
        _flush_directory(self._vault)
        return whole

    def abandon(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def config_name(fit: int) -> str:
    """The file that holds the model's own configuration."""
    return f"model-{fit}.json"


def next_number(vault: Vault) -> int:
    present = vault.generations()
    return present[-1].number + 1 if present else 1


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    with contextlib.suppress(OSError, AttributeError):  # what was written need not stay in memory
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _flush_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
