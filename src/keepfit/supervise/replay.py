"""The saved batch of a run, opened again in its own script's model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..blackbox import journal, shapes
from ..blackbox.folder import Folder
from ..blackbox.pulse import Pulse
from ..blackbox.rundir import RunDirectory
from ..blackbox.safetensors import Damaged
from ..blackbox.states import Generation, Manifest, Vault
from . import launch, records


class CannotReplay(Exception):
    """Why, in a line."""


def saved(run: RunDirectory) -> list[tuple[Generation, Manifest]]:
    """The batches of a run that are still good, oldest first."""
    found = []
    for generation in Vault(run.batches).generations():
        try:
            found.append((generation, generation.verified()))
        except Damaged:
            continue
    return found


def replay(
    run: RunDirectory, number: int | None, environment: Mapping[str, str], asked: bool, command: tuple[str, ...] = ()
) -> dict[str, Any] | None:
    """Run the command up to that batch's `fit`. `asked`: at a prompt, else what was found is returned.

    `command` is given where the record's own is not to be executed: a record that was copied here is data.
    """
    batches = saved(run)
    chosen = [pair for pair in batches if number is None or pair[1].number == number]
    if not chosen:
        there = ", ".join(str(manifest.number) for _, manifest in batches)
        raise CannotReplay(
            f"run {run.id} has no saved batch {number}; it has {there}" if there else f"run {run.id} has no saved batch"
        )
    generation, manifest = chosen[-1]
    events, _ = journal.read(run.folder)
    head = next((event for event in events if event["event"] == "run"), {})
    argv, cwd = list(shapes.texts(head.get("argv"))), shapes.text(head.get("cwd"))
    if command:
        argv, cwd = list(command), os.getcwd()
    elif records.was_copied(run):
        raise CannotReplay(
            f"the record of run {run.id} was copied here, and what it names is not executed; give the command: "
            f"keepfit replay {run.id} -- CMD …"
        )
    if not argv or not os.path.isdir(cwd):
        raise CannotReplay(f"the command of run {run.id}, or its directory, is not there any more")
    with records.scratch("keepfit-replay-") as folder:
        return _run(argv, cwd, environment, folder, generation, manifest, asked)


def _run(
    argv: list[str],
    cwd: str,
    environment: Mapping[str, str],
    folder: Folder,
    generation: Generation,
    manifest: Manifest,
    asked: bool,
) -> dict[str, Any] | None:
    pulse = Pulse()
    try:
        told = launch.trainee_environment(environment, folder.path, pulse.address)
        told["KEEPFIT_REPLAY"] = os.path.abspath(generation.path)
        out = Path(folder.path, "found.json")
        if not asked:
            told["KEEPFIT_REPLAY_OUT"] = str(out)
        stream = None if asked else sys.stderr  # stdout is the answer's
        done = subprocess.run(argv, cwd=cwd, env=told, stdout=stream, check=False)
    except OSError as error:
        raise CannotReplay(f"{argv[0]}: {error.strerror}") from None
    finally:
        pulse.close()
    if asked:
        return None
    if not out.is_file():
        raise CannotReplay(f"the script ended with status {done.returncode} before it came to that `fit`")
    found: dict[str, Any] = json.loads(out.read_text())
    return {"batch": manifest.number, "fit": manifest.fit, "recorded": manifest.state.get("found"), **found}
