"""How a run that did not finish is gone on with: a command line that can be pasted, here and now."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from ..blackbox import journal, shapes
from ..blackbox.rundir import RunDirectory, default_runs_directory
from ..facts import Verdict
from ..quick import dataclass
from . import scene
from .policy import where
from .records import newest

UNFINISHED = ("died", "unknown")


@dataclass(frozen=True)
class WayOn:
    saved_at: str  # epoch 3, batch 17
    command: str


def of(run: RunDirectory, verdict: Verdict, environment: Mapping[str, str] = os.environ) -> WayOn | None:
    """None where the run has ended as it should, or where nothing was saved."""
    saved = newest(run) if verdict.outcome in UNFINISHED else None
    if saved is None:
        return None
    events, _ = journal.read(run.folder)
    heads = [event for event in events if event["event"] == "run"]
    head = heads[-1] if heads else {}
    argv = shapes.texts(head.get("argv"))
    if not argv:
        return None
    words = ["keepfit", "run", *shapes.texts(head.get("words")), "--resume", run.id]
    elsewhere = {name: value for name, value in environment.items() if name != "KEEPFIT_RUNS"}  # in another shell
    if run.path.parent != default_runs_directory(elsewhere):
        words += ["--runs-dir", str(run.path.parent)]
    folder = shapes.text(head.get("cwd"))
    before = f"cd {shlex.quote(folder)} && " if folder and folder != scene.cwd() else ""
    return WayOn(where(saved), before + shlex.join([*words, "--", *argv]))
