"""The journal: one JSON object a line, appended by the supervisor and the agent alike.

Standard library only: the agent imports this too. A line is written by one `write` on a descriptor
opened for appending, so two writers never mix; a torn last line is tolerated by the reader.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from .folder import Folder
from .secrets import mask_json

VERSION = 1
NAME = "journal.jsonl"
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
HEAD, TAIL = 1 << 20, 16 << 20  # of a journal larger than both together only these bytes are read


class JournalWriter:
    """Appends events. It never raises: a journal that cannot be written must not stop a training.

    Before every line its descriptor is known to be still the journal's: a program that closes descriptors it does not
    know, and opens a file of its own, finds nothing of ours in it. `open_file` opens the journal again.
    """

    def __init__(self, open_file: Callable[[], int], fd: int | None = None) -> None:
        self.failure: str | None = None
        self._open_file = open_file
        self._fd = fd
        self._identity: tuple[int, int] | None = None
        try:
            self._fd = open_file() if fd is None else fd
            self._identity = _identity(self._fd)
        except OSError as error:
            self.failure = error.strerror or str(error)

    @classmethod
    def of(cls, folder: Folder) -> JournalWriter:
        return cls(lambda: folder.open_file(NAME, APPEND))

    def write(self, event: str, **details: Any) -> None:
        """One event, without secrets. `t` is the wall clock (for people), `m` the monotonic one (for arithmetic)."""
        if self._identity is None:
            return
        line = {"event": event, "t": round(time.time(), 3), "m": round(time.monotonic(), 4), **mask_json(details)}
        try:
            os.write(self._ours(), json.dumps(line, default=str).encode() + b"\n")
        except (OSError, ValueError, RecursionError) as error:
            self.failure = getattr(error, "strerror", None) or str(error)

    def _ours(self) -> int:
        """A descriptor of the journal, and of nothing else."""
        if self._fd is not None and _is(self._fd, self._identity):
            return self._fd
        self._fd = None  # whoever has it now keeps it
        fd = self._open_file()
        if not _is(fd, self._identity):
            os.close(fd)
            raise OSError("another journal lies where ours was")
        self._fd = fd
        return fd

    def close(self) -> None:
        if self._fd is not None and _is(self._fd, self._identity):
            os.close(self._fd)
        self._fd = self._identity = None


def _identity(fd: int) -> tuple[int, int]:
    known = os.fstat(fd)
    return known.st_dev, known.st_ino


def _is(fd: int, identity: tuple[int, int] | None) -> bool:
    try:
        return _identity(fd) == identity
    except OSError:
        return False


def newest_session(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was written since keepfit was last started for this run: one that was resumed has several beginnings."""
    return events[max((index for index, event in enumerate(events) if event["event"] == "run"), default=0) :]


def read(folder: Folder, head: int = HEAD, tail: int = TAIL) -> tuple[list[dict[str, Any]], list[str]]:
    """(events, lost): every readable line, and in words what could not be read. Never raises.

    Of a journal of more than `head` and `tail` bytes those are read, from its beginning and from its end.
    """
    lost = []
    try:
        fd = folder.open_file(NAME)
    except FileNotFoundError:
        return [], ["there is no journal"]
    except OSError as error:
        return [], [f"the journal cannot be read ({error.strerror})"]
    with open(fd, "rb") as file:
        try:
            size = os.fstat(fd).st_size
            content = file.read(head + tail)
            if size > head + tail:
                lost.append(f"{(size - head - tail) >> 20} MiB in the middle of the journal were not read")
                file.seek(size - tail)
                rest = file.read(tail)
                content = content[: content.rfind(b"\n", 0, head) + 1] + rest[rest.find(b"\n") + 1 :]
        except OSError as error:
            return [], [f"the journal cannot be read ({error.strerror})"]
    events, damaged = events_of(content.split(b"\n"))
    if damaged:
        lost.append(f"{damaged} unreadable journal line{'s' * (damaged > 1)} skipped")
    return events, lost


def events_of(lines: Iterable[bytes]) -> tuple[list[dict[str, Any]], int]:
    events = []
    damaged = 0
    for line in lines:
        if not line.strip():
            continue
        event = None
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            pass  # counted below
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            events.append(event)
        else:
            damaged += 1
    return events, damaged
