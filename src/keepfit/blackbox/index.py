"""The run index: a small SQLite file beside the runs. The directories are the truth, this is only fast.

A lost, locked or damaged index is rebuilt from the directories, or done without. One that somebody else has put
there is not touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..quick import dataclass
from . import journal
from .folder import Folder
from .rundir import RunDirectory, all_runs
from .shapes import number, text, texts, whole

if TYPE_CHECKING:
    from sqlite3 import Connection

FILE = "index.sqlite"
UNFINISHED = ("running", "unknown")
IDENTITY, SCHEMA = 0x6B666974, 2  # `application_id` and `user_version` of a file of ours
TABLES = {"runs", "choices"}
SECONDS, STEPS = 5.0, 10_000  # that one statement may take, looked at after so many steps of SQLite's machine
HEAD, TAIL = 64 << 10, 1 << 20  # of a journal are read to list its run


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
    bytes: int = 0  # on disk

    @property
    def argv(self) -> list[str]:
        try:
            return list(texts(json.loads(self.command)))
        except (ValueError, RecursionError):
            return []


_COLUMNS = [f.name for f in fields(Row)]
_RUNS = f"CREATE TABLE runs ({', '.join(_COLUMNS)}, PRIMARY KEY (id))"
_CHOICES = "CREATE TABLE choices (key TEXT PRIMARY KEY, at REAL, measured TEXT)"
_PUT = f"INSERT OR REPLACE INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


class NoIndex(Exception):
    """There is none that could be used, and why."""


@contextlib.contextmanager
def opened(runs: Path, write: bool = False, patience: float = 1.0) -> Iterator[Connection]:
    """The index, ours and nobody else's. Whatever is wrong with it, before or while it is used, is a NoIndex."""
    import sqlite3

    try:
        folder = Folder.open(str(runs))
        os.close(folder.open_file(FILE, os.O_RDWR | os.O_CREAT if write else os.O_RDONLY))
        connection = sqlite3.connect(runs / FILE, timeout=patience)
        ends = time.monotonic() + SECONDS
        connection.set_progress_handler(lambda: int(time.monotonic() > ends), STEPS)
        try:
            _prepare(connection, write)
            with connection:
                yield connection
        finally:
            connection.close()
    except sqlite3.OperationalError as error:  # locked, read-only, full
        raise NoIndex(str(error)) from None
    except sqlite3.DatabaseError as error:  # damaged: it is only a copy, and is made anew
        if write:
            with contextlib.suppress(OSError):
                folder.rename(FILE, f"{FILE}.damaged")
        raise NoIndex(str(error)) from None
    except OSError as error:
        raise NoIndex(error.strerror or str(error)) from None


def _prepare(connection: Connection, write: bool) -> None:
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    # Not a view, a trigger or a virtual table under the name of a table: what is in it is run, not read.
    made = {name: (kind, sql) for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master")}
    made = {name: one for name, one in made.items() if not name.startswith("sqlite_autoindex_")}
    if (identity, schema) == (IDENTITY, SCHEMA) and made == {"runs": ("table", _RUNS), "choices": ("table", _CHOICES)}:
        return
    plain = all(kind == "table" and str(sql).startswith("CREATE TABLE") for kind, sql in made.values())
    if identity not in (0, IDENTITY) or schema > SCHEMA or not made.keys() <= TABLES or not plain:
        raise NoIndex(f"{FILE} belongs to another program, or to a newer keepfit")
    if not write:
        raise NoIndex(f"{FILE} is of an older keepfit")
    with connection:
        connection.execute("DROP TABLE IF EXISTS runs")
        connection.execute(_RUNS)
        if made.get("choices") != ("table", _CHOICES):  # what was measured is kept, where it is as we have it
            connection.execute("DROP TABLE IF EXISTS choices")
            connection.execute(_CHOICES)
        connection.execute(f"PRAGMA application_id = {IDENTITY}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")


def row_of(run: RunDirectory) -> Row:
    """A row read from the journal alone: enough to list a run, without judging it again."""
    try:
        events, _ = journal.read(run.folder, HEAD, TAIL)
    except OSError:
        return Row(id=run.id, state="unknown", cause="unknown", command="[]")
    head = next((e for e in events if e["event"] == "run"), {})
    events = journal.newest_session(events)  # a run that was resumed is not judged by how it ended before
    verdict = next((e for e in reversed(events) if e["event"] == "verdict"), None)
    ended = next((e.get("t") for e in reversed(events) if e["event"] == "end"), None)
    row = Row(
        id=run.id,
        name=text(head.get("name")),
        state="running",  # until somebody looks: `runs` never shows this without checking
        command=json.dumps(texts(head.get("argv"))),
        cwd=text(head.get("cwd")),
        started_at=number(head.get("t")),
        ended_at=number(ended) if ended is not None else None,
        bytes=run.size(),
    )
    return judged(row, verdict, row.ended_at) if verdict else row


def judged(row: Row, verdict: dict[str, object], ended_at: float | None) -> Row:
    return replace(
        row,
        state=text(verdict.get("outcome"), "unknown"),
        cause=text(verdict.get("cause"), "unknown"),
        code=text(verdict.get("code")),
        confidence=text(verdict.get("confidence")),
        ended_at=ended_at,
    )


def put(runs: Path, rows: Iterable[Row]) -> bool:
    """Store rows. False, and nothing else, when the index cannot be written."""
    values = [astuple(row) for row in rows]
    for _ in range(2):  # once more where it was damaged, and is new now
        with contextlib.suppress(NoIndex), opened(runs, write=True) as connection:
            connection.executemany(_PUT, values)
            return True
    return False


def rows(runs: Path) -> list[Row]:
    """All runs, oldest first, reconciled with the directories that really exist. NotOurs where they are not ours."""
    present = all_runs(runs)
    stored = _stored(runs) if present else {}
    fresh = [row_of(run) for run in present if run.id not in stored]
    if fresh:
        put(runs, fresh)
    stored.update({row.id: row for row in fresh})
    return [stored[run.id] for run in present]


def _stored(runs: Path) -> dict[str, Row]:
    try:
        with opened(runs) as connection:
            found = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM runs").fetchall()
    except NoIndex:
        return {}
    known = [_row(dict(zip(_COLUMNS, values, strict=True))) for values in found]
    return {row.id: row for row in known}


def _row(known: dict[str, object]) -> Row:
    """SQLite holds what it is given: what is of another type than the row's own is as good as not there."""
    words = {name: text(known[name]) for name in _COLUMNS if name not in ("started_at", "ended_at", "bytes")}
    ended = known["ended_at"]
    return Row(
        **words,
        started_at=number(known["started_at"]),
        ended_at=number(ended) if ended is not None else None,
        bytes=whole(known["bytes"]),
    )


def forget(runs: Path, ids: Iterable[str]) -> None:
    """Where it cannot be done, the next listing leaves out what has no directory."""
    with contextlib.suppress(NoIndex), opened(runs, write=True) as connection:
        connection.executemany("DELETE FROM runs WHERE id = ?", [(run,) for run in ids])


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
