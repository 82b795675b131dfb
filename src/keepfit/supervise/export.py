"""A saved state as an ordinary file: the model by the interpreter that trained it, or its weights by ourselves."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .. import agent
from ..blackbox import journal, safetensors, shapes, states
from ..blackbox.rundir import RunDirectory
from ..blackbox.safetensors import Damaged, Slot
from ..blackbox.states import Generation, Manifest, Vault
from ..machine import interpreter
from ..quick import dataclass
from .policy import where

EXPORTER = Path(agent.__file__).parent / "exporter.py"  # run by the interpreter that trained the model
CANNOT_WRITE = 73
USAGE = 64
LONGEST = 600.0  # seconds


class CannotExport(Exception):
    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Written:
    path: Path
    what: str  # model | weights
    of: str  # which state
    why: str = ""  # not the model


def export(run: RunDirectory, target: Path, chosen: str | None = None) -> Written:
    """`chosen`: the interpreter that builds the model; None: the one that trained it."""
    vault = Vault(run.checkpoints)
    found = next(vault.good(), None)
    if found is None:
        raise CannotExport(f"run {run.id} has no good saved state")
    generation, manifest = found
    of = f"state {manifest.number}, {where(manifest)}"
    if not os.access(target.absolute().parent, os.W_OK):
        raise CannotExport(f"{target.absolute().parent} cannot be written", CANNOT_WRITE)
    why = _by_its_interpreter(run, generation, manifest, target, chosen)
    if why is None:
        return Written(target, "model", of)
    weights = target.with_suffix(".safetensors")
    try:
        _write_weights(generation, weights)
    except Damaged as damage:
        raise CannotExport(f"state {manifest.number}: {damage}") from None
    except OSError as error:
        raise CannotExport(f"{weights}: {error.strerror}", CANNOT_WRITE) from None
    return Written(weights, "weights", of, why)


def _by_its_interpreter(
    run: RunDirectory, generation: Generation, manifest: Manifest, target: Path, chosen: str | None
) -> str | None:
    """None where the file was written; else why it was not."""
    name = states.config_name(manifest.fit)
    if name not in manifest.beside:
        return "no architecture was saved with it (it does not serialise, or the record is of keepfit 0.1.0)"
    config = generation.beside(name, manifest)
    if config is None:
        return f"{name}, the model's architecture, is damaged"
    python, why = (chosen, "") if chosen else _interpreter(run)
    if python is None:
        return why
    beside = target.with_name(f".{target.stem}-{os.getpid()}.keras")
    command = [python, str(EXPORTER), os.path.abspath(generation.path), str(beside)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow", "KEEPFIT_DISABLE": "1"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False,
            errors="replace", input=config.decode(errors="replace"),
        )  # fmt: skip
        if done.returncode == 0 and beside.is_file():
            os.replace(beside, target)
            return None
        lines = done.stderr.strip().splitlines()
        return lines[-1] if lines else f"the export ended with status {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _interpreter(run: RunDirectory) -> tuple[str | None, str]:
    """The Python that trained it, or None and why not: a record is data, and what it names is not executed blindly."""
    events, _ = journal.read(run.folder)
    awake = {e.get("pid") for e in events if e["event"] == "agent" and e.get("framework") == "keras"}
    for event in reversed(events):
        if event["event"] == "agent" and event.get("state") == "ready" and event.get("pid") in awake:
            path = shapes.text(event.get("executable"))
            why = interpreter.why_not_to_be_trusted(path)
            return (None, f"the interpreter that trained it, {path or 'unknown'}, {why}") if why else (path, "")
    return None, "the record does not tell which interpreter trained it"


def _write_weights(generation: Generation, target: Path) -> None:
    """The model's own variables, by their names in Keras."""
    reader = safetensors.Reader(generation.open_file(states.STATE))
    try:
        kept = [name for name in reader.slots if name.startswith("model/")]
        slots, taken = [], set()
        for name in kept:
            slot = reader.slots[name]
            plain = name.split("/", 2)[2] or name
            plain = plain if plain not in taken else name
            taken.add(plain)
            slots.append(Slot(plain, slot.dtype, slot.shape))

        def contents() -> Iterator[bytearray]:
            return (reader.read(name) for name in kept)

        beside = target.with_name(f".{target.name}-{os.getpid()}")
        with open(beside, "xb") as file:
            safetensors.write(file, slots, contents())
        os.replace(beside, target)
    finally:
        reader.close()
