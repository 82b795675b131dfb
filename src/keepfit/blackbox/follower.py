"""Following a journal that others write to as well."""

from __future__ import annotations

import json
import os
from typing import Any


class JournalFollower:
    """New lines of a journal that others write to as well."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0

    def new_events(self) -> list[dict[str, Any]]:
        try:
            if os.stat(self._path).st_size <= self._offset:
                return []
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                content = file.read(1 << 20)
        except OSError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        events = []
        for line in whole.splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
        return [event for event in events if isinstance(event, dict)]
