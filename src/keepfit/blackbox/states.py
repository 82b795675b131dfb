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
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from . import safetensors
from .folder import Folder
from .safetensors import Damaged

FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.safetensors"
LARGEST_MANIFEST = 64 << 20  # bytes
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
    kind: str = "step"  # step: a training in progress | end: one that finished | batch: one that was not finite
    epoch: int = 0  # the epoch to go on in
    batch: int = 0  # and the batch in it, both counted from 0
    step: int = 0  # batches trained so far, in this `fit`
    written: float = 0.0  # wall clock
    process: str = ""  # which one of the run's processes: its command line, and the how-manieth
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name -> bytes, sha256
    state: Mapping[str, Any] = field(default_factory=dict)  # what is no tensor
    beside: Mapping[str, str] = field(default_factory=dict)  # name of a file beside the generations -> its sha256
    format: int = FORMAT

    @property
    def bytes(self) -> int:
        return sum(known["bytes"] for known in self.files.values())


def sha256(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def encode(manifest: Manifest) -> bytes:
    """JSON, with a checksum of its own in the last line."""
    known = {name: getattr(manifest, name) for name in Manifest.__dataclass_fields__}
    text = json.dumps(known, separators=(",", ":"), allow_nan=False)
    return f'{{"manifest":{text},\n"sha256":"{sha256(text.encode())}"}}\n'.encode()


def decode(content: bytes) -> Manifest:
    try:
        document = json.loads(content)
        known, checksum = document["manifest"], document["sha256"]
        text = json.dumps(known, separators=(",", ":"), allow_nan=False)
        if int(known["format"]) > FORMAT:
            raise Damaged(f"format {known['format']}, of a newer keepfit; this one reads up to {FORMAT}")
        if sha256(text.encode()) != checksum:
            raise Damaged("the manifest's checksum is wrong")
        return _believable(Manifest(**known))
    except Damaged:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise Damaged(f"not a manifest ({type(error).__name__}: {error})") from None


def _believable(manifest: Manifest) -> Manifest:
    """A checksum says that it is what was written; not that we have written it."""
    counts = (manifest.number, manifest.fit, manifest.epoch, manifest.batch, manifest.step)
    if not all(type(count) is int and 0 <= count < 1 << 53 for count in counts):
        raise ValueError("numbers were expected")
    if not (isinstance(manifest.written, (int, float)) and 0 <= manifest.written < 1e11):
        raise ValueError("a time was expected")
    if not (isinstance(manifest.kind, str) and isinstance(manifest.process, str) and isinstance(manifest.state, dict)):
        raise ValueError("words were expected")
    for name, known in manifest.files.items():
        if type(known["bytes"]) is not int or known["bytes"] < 0 or not isinstance(known["sha256"], str):
            raise ValueError(f"{name}: {known}")
        _plain(name)
    for name, checksum in manifest.beside.items():
        if not isinstance(checksum, str):
            raise ValueError(f"{name}: {checksum}")
        _plain(name)
    return manifest


def _plain(name: str) -> None:
    """The name of a file, which leads nowhere else."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a file")


class Generation:
    """One directory of a vault."""

    def __init__(self, vault: Vault, name: str) -> None:
        self._vault = vault
        self._name = name
        self.number = int(name)

    @classmethod
    def at(cls, path: str) -> Generation:
        """One that a path leads to."""
        vault, name = os.path.split(os.path.abspath(path))
        return cls(Vault(vault), name)

    @property
    def path(self) -> str:
        return os.path.join(self._vault.path, self._name)

    def _folder(self) -> Folder:
        return self._vault.folder().folder(self._name)

    def open_file(self, name: str) -> int:
        return self._folder().open_file(name)

    def manifest(self) -> Manifest:
        """What it says of itself; Damaged where that cannot be believed."""
        try:
            content = self._folder().read(MANIFEST, LARGEST_MANIFEST)
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
            try:
                with open(self.open_file(name), "rb") as file:
                    found = os.fstat(file.fileno())
                    if found.st_size != known["bytes"]:
                        raise Damaged(f"{name}: {found.st_size} bytes where {known['bytes']} were written")
                    if found.st_size > MOSTLY_HOLES and found.st_blocks * 512 < found.st_size // 64:
                        raise Damaged(f"{name}: next to nothing of its {found.st_size} bytes was ever written")
                    if safetensors.sha256_of(file) != known["sha256"]:
                        raise Damaged(f"{name}: its checksum is wrong")
            except OSError as error:
                raise Damaged(f"{name}: {error.strerror}") from None
        return manifest

    def beside(self, name: str, manifest: Manifest) -> bytes | None:
        """A file that lies beside the generations, if it is what this one was written with."""
        known = manifest.beside.get(name)
        try:
            content = self._vault.folder().read(name, LARGEST_MANIFEST)
        except OSError:
            return None
        return content if known == sha256(content) else None

    def size(self) -> int:
        try:
            return self._folder().size()
        except OSError:
            return 0

    def age(self, now: float) -> float:
        """Seconds since it was written."""
        try:
            return now - self._vault.folder().stat(self._name).st_mtime
        except OSError:
            return float("inf")

    def remove(self) -> None:
        """Under another name first: half a generation is never seen as one."""
        doomed = f"{self._name}.old"
        with contextlib.suppress(OSError):
            vault = self._vault.folder()
            vault.rename(self._name, doomed)
            vault.remove(doomed)


MOSTLY_HOLES = 64 << 20  # bytes; a file larger than that which takes no room on the disk is none of ours


class Vault:
    """All saved states of one run: a directory in its own, made when something is first put there.

    It holds a path and no descriptor: it lives in the training's process, for as long as that.
    """

    def __init__(self, path: Any) -> None:
        self.path = str(path)

    def folder(self) -> Folder:
        above, name = os.path.split(self.path)
        return Folder.open(above).folder(name)

    def generations(self) -> list[Generation]:
        """Oldest first; whether they are good is not known yet."""
        try:
            return [Generation(self, name) for name in self.folder().names() if is_generation(name)]
        except OSError:
            return []

    def good(self) -> Iterator[tuple[Generation, Manifest]]:
        """Those that are as they were written, newest first."""
        for generation in reversed(self.generations()):
            with contextlib.suppress(Damaged):
                yield generation, generation.verified()

    def keep(self, name: str, content: str) -> str:
        """A file beside the generations, written whole or not at all; returns its checksum."""
        self._made().write(name, content.encode())
        return sha256(content.encode())

    def draft(self, number: int, needs: int) -> Draft:
        """Room for a new generation, or an OSError.

        `needs` bytes must be free beforehand: a disk that fills up in the middle hurts others as well.
        """
        folder = self._made()
        _check_room(folder, needs)
        return Draft(folder, number)

    def _made(self) -> Folder:
        """Not the run around it: a record that somebody has removed stays removed."""
        above, name = os.path.split(self.path)
        with contextlib.suppress(FileExistsError):
            return Folder.open(above).make(name)
        return self.folder()

    def prune(self, process: str = "", kept: int = KEPT) -> None:
        """Of a process' training in progress the newest `kept` stay; of finished ones their end."""
        folder = self.folder()
        for name in folder.names():
            if name.endswith(".old") and is_generation(name[: -len(".old")]):
                folder.remove(name)
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
        for generation in (*steps[: max(0, len(steps) - kept)], *_too_many(folder, ends)):
            generation.remove()

    def thin(self) -> None:
        """The training has finished: its last state stays, what led to it goes."""
        for generation in self.generations()[:-1]:
            generation.remove()


def is_generation(name: str) -> bool:
    """Whether a directory of this name is one: six digits, more where they do not suffice."""
    return name.isascii() and name.isdigit() and len(name) < 16 and f"{int(name):06d}" == name


def _check_room(folder: Folder, needs: int) -> None:
    disk = folder.room()
    free = disk.f_bavail * disk.f_frsize
    spare = min(SPARE, int(SPARE_SHARE * disk.f_blocks * disk.f_frsize))
    if free < needs + spare:
        raise NoRoom(28, f"{needs} bytes wanted, {max(0, free - spare)} free")


def _too_many(folder: Folder, ends: list[Generation]) -> list[Generation]:
    """The oldest of the ends, where all of them would take more than their share of the disk."""
    disk = folder.room()
    room = int(ENDS_SHARE * disk.f_blocks * disk.f_frsize)
    for kept, generation in enumerate(reversed(ends)):
        room -= generation.size()
        if room < 0 and kept:
            return ends[: len(ends) - kept]
    return []


class Draft:
    """A generation that is being written: beside the others, and not seen as one until it is whole."""

    def __init__(self, vault: Folder, number: int) -> None:
        self.number = number
        self._vault = vault
        self._name = f"{number:06d}.new"
        vault.remove(self._name)
        self._folder = vault.make(self._name)
        self.path = self._folder.path
        self._files: dict[str, dict[str, Any]] = {}

    def write(self, name: str, write: Write) -> None:
        with open(self._folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            checksum = write(file)
            _flush(file)
            self._files[name] = {"bytes": file.tell(), "sha256": checksum}

    def adopt(self) -> None:
        """Files that somebody else has put there."""
        for name in self._folder.names():
            if name not in self._files:
                with open(self._folder.open_file(name, os.O_RDWR), "rb+") as file:
                    os.fchmod(file.fileno(), 0o600)
                    checksum = safetensors.sha256_of(file)
                    _flush(file)
                    self._files[name] = {"bytes": os.fstat(file.fileno()).st_size, "sha256": checksum}

    def complete(self, manifest: Manifest, process: str = "") -> Manifest:
        """Manifest, flush, rename: from now on it is a generation."""
        whole = replace(manifest, number=self.number, process=process, files=dict(self._files))
        with open(self._folder.open_file(MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(encode(whole))
            _flush(file)
        self._folder.flush()
        self._vault.rename(self._name, f"{self.number:06d}")
        self._vault.flush()
        return whole

    def abandon(self) -> None:
        self._vault.remove(self._name)


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
