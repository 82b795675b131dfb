"""Checking data: files, folders and Python objects, streamed, in constant memory.

columns    what is seen of a column: range, NaN, Inf, categories
sources    a path -> one of the readers below
arrays     .npy and .npz        tables   CSV and Parquet
records    TFRecord             images   folders of pictures
target     a Python object, in an interpreter of its own
rows       hashes of rows: what comes twice, and what is in two files
schema     what is normal, learnt from one file and asserted of another
fix        a cleaned copy
judging    what was seen -> findings
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """The room is also the function of that name: `keepfit.check(data)`."""

    def __call__(self, data: Any, name: str = "data") -> Any:
        from ..data import check

        return check(data, name)


sys.modules[__name__].__class__ = _Room
