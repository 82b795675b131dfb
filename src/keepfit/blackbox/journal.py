"""The journal: one JSON object a line, appended by the supervisor and the agent alike.

Standard library only: the agent imports this too. A line is written by one `write` on a descriptor
opened for appending, so two writers never mix; a torn last line is tolerated by the reader.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

VERSION = 1


class JournalWriter:
    """Appends events. It never raises: a journal that cannot be written must not stop a training."""

    def __init__(self, path: str) -> None:
        self.failure: str | None = None
        self._fd: int | None = None
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            self.failure = error.strerror

    def write(self, event: str, **details: Any) -> None:
        """One event. `t` is the wall clock (for people), `m` the monotonic one (for arithmetic)."""
        if self._fd is None:
            return
        line = {"event": event, "t": round(time.time(), 3), "m": round(time.monotonic(), 4), **details}
        try:
            os.write(self._fd, json.dumps(line, default=str).encode() + b"\n")
        except (OSError, ValueError) as error:
            self.failure = str(error)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def newest_session(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was written since keepfit was last started for this run: one that was resumed has several beginnings."""
    return events[max((index for index, event in enumerate(events) if event["event"] == "run"), default=0) :]


def read(path: str, limit: int = 64 << 20) -> tuple[list[dict[str, Any]], list[str]]:
    """(events, lost): every readable line, and in words what could not be read. Never raises."""
    try:
        with open(path, "rb") as file:
            content = file.read(limit)
    except FileNotFoundError:
        return [], ["there is no journal"]
    except OSError as error:
        return [], [f"the journal cannot be read ({error.strerror})"]
    events = []
    damaged = 0
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError:
            damaged += 1
            continue
        except RecursionError:
            damaged += 1
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            events.append(event)
        else:
            damaged += 1
    lost = [f"{damaged} unreadable journal line{'s' * (damaged > 1)} skipped"] if damaged else []
    return events, lost
