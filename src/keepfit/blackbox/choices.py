"""What was measured of a model in earlier runs, so that the next one starts right.

A small table in the runs directory's index file. Losing it costs two measured micro-batches, no more.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .index import FILE, put

KEEP = 500
_CREATE = "CREATE TABLE IF NOT EXISTS choices (key TEXT PRIMARY KEY, at REAL, measured TEXT)"


def recall(runs: Path, key: str) -> Mapping[str, Any] | None:
    try:
        with sqlite3.connect(runs / FILE, timeout=0.5) as database:
            database.execute(_CREATE)
            row = database.execute("SELECT measured FROM choices WHERE key = ?", (key,)).fetchone()
        found = json.loads(row[0]) if row else None
        return found if isinstance(found, dict) else None
    except (sqlite3.Error, OSError, ValueError):
        return None


def remember(runs: Path, key: str, at: float, measured: Mapping[str, Any]) -> None:
    """Where the file is damaged, the index makes it anew; where it cannot be written, the next run measures again."""
    for retry in (True, False):
        try:
            with sqlite3.connect(runs / FILE, timeout=0.5) as database:
                database.execute(_CREATE)
                database.execute("INSERT OR REPLACE INTO choices VALUES (?, ?, ?)", (key, at, json.dumps(measured)))
                database.execute(
                    "DELETE FROM choices WHERE key NOT IN (SELECT key FROM choices ORDER BY at DESC LIMIT ?)", (KEEP,)
                )
            return
        except (sqlite3.OperationalError, OSError):  # locked, read-only, full
            return
        except sqlite3.DatabaseError:
            if not (retry and put(runs, [])):
                return


def forget(runs: Path, key: str) -> None:
    try:
        with sqlite3.connect(runs / FILE, timeout=0.5) as database:
            database.execute(_CREATE)
            database.execute("DELETE FROM choices WHERE key = ?", (key,))
    except (sqlite3.Error, OSError):
        return
