"""What was seen, as reports for the catalogue: each finding comes from one of its conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..conditions.catalogue import findings
from ..facts import Finding
from . import tables
from .columns import Columns
from .rows import Rows, pairs_of
from .summary import Seen

MOST = 8  # columns that are named for one thing

Report = dict[str, Any]


def judge(
    seen: list[Seen], rows: list[Rows], unreadable: list[tuple[str, str]], wrong: list[tuple[str, str]]
) -> list[Finding]:
    """`unreadable` and `wrong`: (path, why) of what could not be read, and of what a schema forbids."""
    reports: list[Report] = [_file(path, "unreadable", why=why) for path, why in unreadable]
    for one in seen:
        reports += _of(one)
    for found in rows:
        count, shown = found.twice()
        if count:
            reports.append(_file(found.name, "twice", count=count, rows=found.count, shown=shown))
    for later, earlier in pairs_of(rows):
        count, shown = later.shared_with(earlier)
        if count:
            reports.append(_file(later.name, "leak", count=count, rows=later.count, other=earlier.name, shown=shown))
    reports += [_file(path, "schema", why=why) for path, why in wrong]
    return [finding for report in reports for finding in findings(report, "preflight")]


def _file(path: str, what: str, **facts: Any) -> Report:
    return {"kind": "file", "what": what, "path": path, **facts}


def _of(seen: Seen) -> Iterator[Report]:
    for problem in seen.problems:
        where = {"row": problem.row} if problem.row is not None else {}
        yield _file(problem.file or seen.path, problem.kind, why=problem.message, **where)
    for columns in seen.columns:
        yield from _of_columns(seen, columns)
    if alike := same_columns(seen):
        yield _file(seen.path, "alike", pairs=alike[:MOST], count=len(alike))
    if seen.labels:
        yield _file(seen.path, "labels", name="folders", counts=seen.labels)


def _of_columns(seen: Seen, columns: Columns) -> Iterator[Report]:
    if not columns.is_looked_at:
        yield _file(seen.path, "skipped", name=columns.name, dtype=columns.dtype)
    if columns.bad.total:
        row, column, value = columns.bad.first[0]
        yield _file(
            seen.path, "nonfinite", name=columns.label(column), nan=columns.bad.nan, inf=columns.bad.inf, row=row,
            value=value, shown=[[r, columns.label(c), v] for r, c, v in columns.bad.first],
        )  # fmt: skip
    if columns.null:
        yield _file(seen.path, "missing", name=columns.name, count=columns.null, rows=columns.rows)
    constant = list(columns.constant())
    if constant and not (columns.width > 1 and len(constant) == columns.width):
        names = [columns.label(column) for column in constant]
        yield _file(seen.path, "constant", names=names[:MOST], count=len(names), of=columns.width)
    if columns.values and columns.is_number and columns.rows > 1 and len(columns.values) > 1:
        counts = {str(value): number for value, number in sorted(columns.values.items())}
        yield _file(seen.path, "labels", name=columns.name or "labels", counts=counts)


def same_columns(seen: Seen) -> list[tuple[str, str]]:
    """Columns of a table that are equal in every row: candidates by their range, compared in a second pass."""
    if seen.kind not in ("csv", "parquet"):
        return []
    groups: dict[Any, list[str]] = {}
    for columns in seen.columns:
        if columns.low is None or columns.high is None or columns.rows < 2 or columns.low[0] == columns.high[0]:
            continue
        key = (columns.dtype, float(columns.low[0]), float(columns.high[0]), columns.null, columns.bad.total)
        groups.setdefault(key, []).append(columns.name)
    pairs = [
        (group[i], group[j]) for group in groups.values() for i in range(len(group)) for j in range(i + 1, len(group))
    ][:64]
    if not pairs:
        return []
    names = sorted({name for pair in pairs for name in pair})
    equal = set(pairs)
    for values in tables.columns_of(seen.path, names):
        by_name = dict(zip(names, values, strict=True))
        equal = {pair for pair in equal if _same(by_name[pair[0]], by_name[pair[1]])}
        if not equal:
            break
    return sorted(equal)


def _same(one: Any, other: Any) -> bool:
    return bool(((one == other) | ((one != one) & (other != other))).all())
