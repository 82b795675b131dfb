"""What was seen of one path, and what was wrong with it: the language that readers and judges share."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ..quick import dataclass
from .columns import Columns


@dataclass(frozen=True)
class Problem:
    """Something a reader met that no column shows: `kind` is what the catalogue knows it by."""

    kind: str
    message: str
    row: int | None = None
    file: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass
class Seen:
    """One file, folder or Python object."""

    path: str
    kind: str  # npy | npz | csv | parquet | tfrecord | images | target
    rows: int = 0
    columns: list[Columns] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # classes of an image folder
    read: bool = False  # at least something could be
    size: int = 0  # bytes

    def problem(self, kind: str, message: str, row: int | None = None, **data: Any) -> None:
        self.problems.append(Problem(kind, message, row, data.pop("file", None), data))


class Unreadable(Exception):
    """Nothing of it can be read: why, in a line."""
