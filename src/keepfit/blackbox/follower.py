"""Following a journal that others write to as well."""

from __future__ import annotations

import os
from typing import Any

from .folder import Folder
from .journal import NAME, events_of

MOST = 1 << 20  # bytes at a time


class JournalFollower:
    """New lines of a journal that others write to as well."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._offset = 0

    def new_events(self) -> list[dict[str, Any]]:
        try:
            if self._folder.stat(NAME).st_size <= self._offset:
                return []
            fd = self._folder.open_file(NAME)
            try:
                content = os.pread(fd, MOST, self._offset)
            finally:
                os.close(fd)
        except OSError:
            return []
        end = content.rfind(b"\n") + 1
        if not end and len(content) == MOST:  # no line of ours is so long
            end = MOST
        whole = content[:end]
        self._offset += end
        return events_of(whole.split(b"\n"))[0]
