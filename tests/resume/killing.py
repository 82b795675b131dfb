"""A training that is killed, beside one that never was: plain Python, without keepfit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import stage


def plan(folder: Path, **wanted: Any) -> str:
    marks = folder / "marks"
    marks.mkdir(parents=True, exist_ok=True)
    return json.dumps({"marks": str(marks), "out": str(folder / "result.json"), **wanted})


def beside(folder: Path, **wanted: Any) -> Callable[[], dict[str, Any]]:
    """A training that nobody disturbs, begun while another one is killed; called, its result."""
    command = stage.victim("resumes.py", plan(folder, **{**wanted, "deaths": [], "pause": 0}))
    wait = stage.beside(folder / "said", command)

    def outcome() -> dict[str, Any]:
        wait()
        return result(folder)

    return outcome


def undisturbed(folder: Path, **wanted: Any) -> dict[str, Any]:
    return beside(folder, **wanted)()


def killed(folder: Path, options: tuple[str, ...] = (), **wanted: Any) -> stage.Outcome:
    command = stage.victim("resumes.py", plan(folder, **wanted))
    process = stage.start(folder / "runs", command, ["--restarts", "40", *options])
    return stage.finish(process, folder / "runs")


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def deaths(outcome: stage.Outcome) -> int:
    return len(outcome.events("attempt")) - 1
