"""A path, and the reader for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field

from ..quick import dataclass
from . import arrays, images, records, tables
from .columns import Columns, Matrix
from .rows import Rows
from .summary import Seen, Unreadable

_BY_SUFFIX = {
    ".npy": "npy", ".npz": "npz", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
}  # fmt: skip
LABELS = 100_000  # integers from 0 to below this are counted as labels


@dataclass
class Looking:
    """What is wanted of every chunk."""

    hashes: bool = False
    advance: Callable[[int], None] = lambda count: None
    rows: dict[str, Rows] = field(default_factory=dict)  # by path, where hashes were wanted

    def look(self, path: str) -> Callable[[Columns, int, Matrix], None]:
        hashed = self.rows.setdefault(path, Rows(path)) if self.hashes else None

        def see(columns: Columns, start: int, block: Matrix) -> None:
            columns.see(start, block)
            if columns.width == 1 and block.dtype.kind in "iu" and _are_labels(columns):
                columns.count(block[:, 0])
            elif columns.width > 1 or block.dtype.kind == "f":
                columns.values = None
            if hashed is not None and len(block) and not by_rows:
                hashed.add(block)

        by_rows = os.path.splitext(path)[1].lower() in (".csv", ".parquet", ".pq")
        if by_rows:  # a table's row is hashed as a whole, not column by column
            see.rows = hashed  # type: ignore[attr-defined]
        return see


def _are_labels(columns: Columns) -> bool:
    low, high = columns.low, columns.high
    if low is None or high is None or low[0] < 0 or high[0] >= LABELS:
        columns.values = None
        return False
    return True


def kind_of(path: str) -> str:
    if os.path.isdir(path):
        return "images"
    if os.path.exists(path) and not os.path.isfile(path):
        raise Unreadable("no regular file")
    kind = _BY_SUFFIX.get(os.path.splitext(path)[1].lower())
    if kind is None:
        if os.path.isfile(path) and records.is_record_file(path):
            return "tfrecord"
        if not os.path.exists(path):
            raise Unreadable("no such file or folder")
        raise Unreadable(f"a folder of pictures or one of {', '.join(sorted(_BY_SUFFIX))} was expected")
    return kind


def read(path: str, looking: Looking) -> Seen:
    """Everything that can be seen of a path; Unreadable where nothing can."""
    try:
        kind = kind_of(path)
        size = 0 if kind == "images" else os.path.getsize(path)
        seen = Seen(path, kind, size=size)
        if kind == "images":
            images.read(path, seen, looking.advance)
            if not seen.rows:
                raise Unreadable("no pictures in it")
        elif not size:
            raise Unreadable("empty")
        elif kind == "tfrecord":
            records.read(path, seen, looking.advance)
        else:
            reader = {
                "npy": arrays.read_npy,
                "npz": arrays.read_npz,
                "csv": tables.read_csv,
                "parquet": tables.read_parquet,
            }
            reader[kind](path, seen, looking.look(path), looking.advance)
    except Unreadable:
        raise
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None
    except Exception as error:  # of the many kinds that damaged files make libraries raise
        raise Unreadable(f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}") from None
    if kind != "images" and os.path.getsize(path) != seen.size:
        seen.problem("grew", f"it changed while it was read ({seen.size} bytes, then {os.path.getsize(path)})")
    if not seen.rows and not seen.problems:
        seen.problem("empty", "holds no rows")
    return seen
