"""The run index: a small SQLite file beside the runs. The directories are the truth, this is only fast.

A lost, locked or damaged index is rebuilt from the directories, or done without.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from . import journal
from .rundir import RunDirectory, all_runs

FILE = "index.sqlite"
UNFINISHED = ("running", "unknown")


@dataclass(frozen=True)
class Row:
    """One run, a line's worth."""

    id: str
    name: str = ""
    state: str = "unknown"  # running | finished | died | unknown
    cause: str = ""
    code: str = ""
    confidence: str = ""
    command: str = ""  # JSON list, secrets masked
    cwd: str = ""
    started_at: float = 0.0
    ended_at: float | None = None

    @property
    def argv(self) -> list[str]:
        try:
            words = json.loads(self.command)
        except ValueError:
            return []
        return [str(word) for word in words] if isinstance(words, list) else []


_COLUMNS = [f.name for f in fields(Row)]
_CREATE = f"CREATE TABLE IF NOT EXISTS runs ({', '.join(_COLUMNS)}, PRIMARY KEY (id))"
_PUT = f"INSERT OR REPLACE INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


def row_of(run: RunDirectory) -> Row:
    """A row read from the journal alone: enough to list a run, without judging it again."""
    try:
        return _row_of(run)
    except (ValueError, TypeError, AttributeError, OverflowError):
        return Row(id=run.id, state="unknown", cause="unknown", command="[]")


def _row_of(run: RunDirectory) -> Row:
    events, _ = journal.read(run.journal)
    head = next((e for e in events if e["event"] == "run"), {})
    events = journal.newest_session(events)  # a run that was resumed is not judged by how it ended before
    verdict = next((e for e in reversed(events) if e["event"] == "verdict"), None)
    ended = next((e.get("t") for e in reversed(events) if e["event"] == "end"), None)
    row = Row(
        id=run.id,
        name=str(head.get("name") or ""),
        state="running",  # until somebody looks: `runs` never shows this without checking
        command=json.dumps(head.get("argv") or []),
        cwd=str(head.get("cwd") or ""),
        started_at=float(head.get("t") or 0.0),
        ended_at=ended,
    )
    return judged(row, verdict, ended) if verdict else row


def judged(row: Row, verdict: dict[str, object], ended_at: float | None) -> Row:
    values = {name: getattr(row, name) for name in _COLUMNS}
    values.update(
        state=str(verdict.get("outcome")),
        cause=str(verdict.get("cause")),
        code=str(verdict.get("code")),
        confidence=str(verdict.get("confidence")),
        ended_at=ended_at,
    )
    return Row(**values)


def put(runs: Path, rows: Iterable[Row]) -> bool:
    """Store rows. False, and nothing else, when the index cannot be written."""
    path = runs / FILE
    rows = list(rows)
    for retry in (True, False):
        try:
            connection = sqlite3.connect(path, timeout=1.0)
            try:
                with connection:
                    connection.execute(_CREATE)
                    connection.executemany(_PUT, [astuple(row) for row in rows])
            finally:
                connection.close()
            os.chmod(path, 0o600)
            return True
        except sqlite3.OperationalError:  # locked, read-only, full: the next listing mends it
            return False
        except (sqlite3.DatabaseError, OSError):  # damaged: it is only a copy, make it anew
            if not retry:
                return False
            path.unlink(missing_ok=True)
    return False


def rows(runs: Path) -> list[Row]:
    """All runs, oldest first, reconciled with the directories that really exist."""
    stored = _stored(runs)
    present = all_runs(runs)
    fresh = [row_of(run) for run in present if run.id not in stored]
    if fresh:
        put(runs, fresh)
    stored.update({row.id: row for row in fresh})
    return [stored[run.id] for run in present]


def _stored(runs: Path) -> dict[str, Row]:
    if not (runs / FILE).is_file():
        return {}
    try:
        connection = sqlite3.connect(f"file:{runs / FILE}?mode=ro", uri=True, timeout=1.0)
        try:
            found = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM runs").fetchall()
        finally:
            connection.close()
    except sqlite3.Error:
        return {}
    return {values[0]: Row(*values) for values in found}


def forget(runs: Path, ids: Iterable[str]) -> None:
    try:
        connection = sqlite3.connect(runs / FILE, timeout=1.0)
        try:
            with connection:
                connection.executemany("DELETE FROM runs WHERE id = ?", [(run,) for run in ids])
        finally:
            connection.close()
    except sqlite3.Error:
        return  # the next listing leaves out what has no directory


def find(all_rows: list[Row], wanted: str) -> Row | list[str]:
    """The run meant by an id, a unique prefix, a name or `latest`; else near names, best first."""
    if wanted == "latest" and all_rows:
        return all_rows[-1]
    for row in all_rows:
        if row.id == wanted:
            return row
    named = [row for row in all_rows if row.name == wanted]
    if named:
        return named[-1]
    prefixed = [row for row in all_rows if row.id.startswith(wanted)]
    if len(prefixed) == 1:
        return prefixed[0]
    if prefixed:
        return [row.id for row in prefixed[-5:]]
    import difflib

    names = [row.id for row in all_rows] + [row.name for row in all_rows if row.name]
    return difflib.get_close_matches(wanted, names, n=5, cutoff=0.4)
