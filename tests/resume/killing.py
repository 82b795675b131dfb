"""A training that is killed, beside one that never was: plain Python, without keepfit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from .. import stage


def plan(folder: Path, **wanted: Any) -> str:
    marks = folder / "marks"
    marks.mkdir(parents=True, exist_ok=True)
    return json.dumps({"marks": str(marks), "out": str(folder / "result.json"), **wanted})


def undisturbed(folder: Path, **wanted: Any) -> dict[str, Any]:
    command = stage.victim("resumes.py", plan(folder, **{**wanted, "deaths": [], "pause": 0}))
    done = subprocess.run(
        command, capture_output=True, text=True, env=stage.clean_environment(folder / "no-runs"), check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return result(folder)


def killed(folder: Path, options: tuple[str, ...] = (), **wanted: Any) -> stage.Outcome:
    command = stage.victim("resumes.py", plan(folder, **wanted))
    process = stage.start(folder / "runs", command, ["--restarts", "40", *options])
    return stage.finish(process, folder / "runs", seconds=500)


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def deaths(outcome: stage.Outcome) -> int:
    return len(outcome.events("attempt")) - 1
