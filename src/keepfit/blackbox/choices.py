"""What was measured of a model in earlier runs, so that the next one starts right.

A small table in the runs directory's index file. Losing it costs two measured micro-batches, no more.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .index import NoIndex, opened

KEEP = 500
PATIENCE = 0.5  # seconds: a training waits for it


def recall(runs: Path, key: str) -> Mapping[str, Any] | None:
    try:
        with opened(runs, patience=PATIENCE) as database:
            row = database.execute("SELECT measured FROM choices WHERE key = ?", (key,)).fetchone()
        found = json.loads(row[0]) if row else None
        return found if isinstance(found, dict) else None
    except (NoIndex, ValueError, TypeError, RecursionError):
        return None


def remember(runs: Path, key: str, at: float, measured: Mapping[str, Any]) -> None:
    """Where it cannot be written, the next run measures again."""
    for _ in range(2):  # once more where the file was damaged, and is new now
        with contextlib.suppress(NoIndex), opened(runs, write=True, patience=PATIENCE) as database:
            database.execute("INSERT OR REPLACE INTO choices VALUES (?, ?, ?)", (key, at, json.dumps(measured)))
            database.execute(
                "DELETE FROM choices WHERE key NOT IN (SELECT key FROM choices ORDER BY at DESC LIMIT ?)", (KEEP,)
            )
            return


def forget(runs: Path, key: str) -> None:
    with contextlib.suppress(NoIndex), opened(runs, write=True, patience=PATIENCE) as database:
        database.execute("DELETE FROM choices WHERE key = ?", (key,))
