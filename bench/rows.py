"""The raw rows of a bench that takes long: kept in the file that BENCH_ROWS names, and not measured again."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path


class Rows(list[list[object]]):
    def __init__(self, header: Sequence[str]) -> None:
        super().__init__()
        self._header = list(header)
        self._file = Path(os.environ.get("BENCH_ROWS", os.devnull))
        if self._file.is_file():
            with open(self._file, newline="") as source:
                self += [
                    [int(word) if word.isdigit() else word for word in row] for row in list(csv.reader(source))[1:]
                ]

    def have(self, *beginning: object) -> bool:
        """Whether there is a row that begins so."""
        return any(row[: len(beginning)] == list(beginning) for row in self)

    def add(self, row: Sequence[object]) -> None:
        self.append(list(row))
        print(*row, sep="  ", flush=True)
        with open(self._file, "w", newline="") as out:
            csv.writer(out).writerows([self._header, *self])
