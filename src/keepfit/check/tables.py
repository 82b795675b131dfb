"""CSV and Parquet, streamed by Arrow."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from .columns import Columns, Matrix
from .rows import hashes_of, of_columns
from .summary import Seen, Unreadable

BLOCK = 1 << 20  # bytes of a CSV read at once
LONGEST = 1 << 26  # bytes of a line, for which larger blocks are tried
ROWS = 1 << 16  # of a Parquet file
RAGGED = 5  # lines that are named
_COLUMN = re.compile(r"In CSV column #(\d+)")
_STRADDLES = re.compile("straddl", re.I)  # what Arrow says of a line that is longer than its block
_EMPTY = re.compile("empty", re.I)

MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None"]
MOSTLY = 0.9  # of a text column's values that look like numbers: then the others are the odd ones
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"

Look = Callable[[Columns, int, Matrix], None]
Advance = Callable[[int], None]


def read_parquet(path: str, seen: Seen, look: Look, advance: Advance) -> None:
    try:
        file = pa.parquet.ParquetFile(path, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise Unreadable(_first(error)) from None
    _begin(seen, file.schema_arrow)
    start = 0
    try:
        for batch in file.iter_batches(batch_size=ROWS, use_threads=False):
            _see(seen, start, batch, look)
            start += batch.num_rows
            advance(batch.nbytes)
    except (pa.ArrowInvalid, OSError) as error:
        seen.problem("damaged", f"cannot be read on from row {start}: {_first(error)}", start)
    seen.rows = start


def read_csv(path: str, seen: Seen, look: Look, advance: Advance) -> None:
    """Twice at most: a column whose later values are of another type is read again as text, and that is said."""
    with open(path, "rb") as file:
        if b"\0" in file.read(1 << 16):
            raise Unreadable("no text: it holds zero bytes")
    as_text: dict[str, pa.DataType] = {}
    block = BLOCK
    hashed = getattr(look, "rows", None)
    while True:
        seen.columns.clear()
        seen.rows, seen.read = 0, False
        if hashed is not None:
            hashed.forget()
        try:
            drifted = _read_csv(path, seen, look, advance, as_text, block)
        except _LongLine:
            block *= 8
            continue
        if drifted is None:
            return
        as_text[drifted] = pa.string()


class _LongLine(Exception):
    """A line does not fit into a block."""


def batches(path: str, as_text: dict[str, pa.DataType], ragged: list[tuple[int, int, int]], block: int = BLOCK) -> Any:
    def wrong(row: Any) -> str:
        ragged.append((row.number or 0, row.expected_columns, row.actual_columns))
        return "skip"

    return pa.csv.open_csv(
        path,
        read_options=pa.csv.ReadOptions(block_size=block, use_threads=False),
        parse_options=pa.csv.ParseOptions(invalid_row_handler=wrong),
        # "nan" is a number that is none, not a missing value: Arrow would take it for one.
        convert_options=pa.csv.ConvertOptions(column_types=as_text, strings_can_be_null=False, null_values=MISSING),
    )


def _read_csv(
    path: str, seen: Seen, look: Look, advance: Advance, as_text: dict[str, pa.DataType], block: int
) -> str | None:
    """None at the end; else the name of a column that has to be read as text."""
    ragged: list[tuple[int, int, int]] = []
    start = 0
    try:
        reader = batches(path, as_text, ragged, block)
        _begin(seen, reader.schema)
        _doubt_header(seen, reader.schema.names)
        for field in reader.schema:
            if pa.types.is_binary(field.type):
                seen.problem("encoding", f"column {field.name!r} is not UTF-8")
        for batch in reader:
            _see(seen, start, batch, look)
            start += batch.num_rows
            advance(batch.nbytes)
    except pa.ArrowInvalid as error:
        if _STRADDLES.search(str(error)) and block < LONGEST:
            raise _LongLine from None
        match = _COLUMN.search(str(error))
        if match and seen.columns:
            name = seen.columns[int(match[1])].name
            if name not in as_text:
                seen.problem("type", f"column {name!r} changes its type: {_first(error)}", start)
                return name
        if not seen.columns and _EMPTY.search(str(error)):
            raise Unreadable("empty") from None
        if not seen.columns:
            raise Unreadable(_first(error)) from None
        seen.problem("damaged", f"cannot be read on from row {start}: {_first(error)}", start)
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(_first(error)) from None
    seen.rows = start
    for columns in seen.columns:
        if (
            (odd := columns.odd_text) is not None
            and columns.numeric >= MOSTLY * columns.rows
            and columns.name not in as_text
        ):
            others = columns.rows - columns.numeric - 1
            more = f", and {others} more" if others else ""
            seen.problem(
                "type", f"column {columns.name!r} holds numbers, but for {odd[1]!r} in row {odd[0]}{more}", odd[0]
            )
    if ragged:
        lines = ", ".join(f"{number or '?'} ({has} of {wanted} fields)" for number, wanted, has in ragged[:RAGGED])
        seen.problem("ragged", f"{len(ragged)} lines have another number of fields and were left out: {lines}")
    return None


def _doubt_header(seen: Seen, names: list[str]) -> None:
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        seen.problem("header", f"one column only, {names[0][:40]!r}: the values do not seem to be separated by commas")
    elif names and all(re.match(_NUMBER, name) for name in names):
        seen.problem("header", "the first line looks like data, and was taken for the names of the columns")


def _begin(seen: Seen, schema: pa.Schema) -> None:
    seen.columns = [Columns(field.name, _type(field.type)) for field in schema]
    seen.read = True


def _type(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
        return "string"
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return str(np.dtype(kind.to_pandas_dtype()).name)
    return "other"


def _see(seen: Seen, start: int, batch: Any, look: Look) -> None:
    look_rows = getattr(look, "rows", None)
    if look_rows is not None and batch.num_rows and batch.num_columns:
        look_rows.add_hashes(of_columns([_cells(column) for column in batch.columns]))
    for columns, array in zip(seen.columns, batch.columns, strict=True):
        columns.null += array.null_count
        if columns.dtype in ("string", "bool"):
            _count_words(columns, array)
            if seen.kind == "csv" and columns.dtype == "string":
                _look_for_numbers(columns, start, array)
                _look_for_lines(seen, columns, start, array)
            columns.rows += len(array)
        elif columns.is_number:
            look(columns, start, numbers(array))
        else:
            columns.rows += len(array)


def numbers(array: Any) -> Matrix:
    """A column's numbers as a matrix of one; in place of a missing one stands its neighbour, which changes no range."""
    if array.null_count:
        if array.null_count == len(array):
            return np.zeros((0, 1))
        array = array.fill_null(array.drop_null()[0])
    return np.asarray(array.to_numpy(zero_copy_only=False)).reshape(-1, 1)


def _cells(array: Any) -> Any:
    """A hash of every cell: of numbers by their bits, of anything else by its text."""
    kind = array.type
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not array.null_count:
        return hashes_of(np.asarray(array.to_numpy(zero_copy_only=False)).reshape(-1, 1))
    coded = array.cast(pa.string()) if not pa.types.is_nested(kind) else pa.array([str(v) for v in array.to_pylist()])
    coded = coded.dictionary_encode()
    words = [hashlib.blake2b(str(word).encode(), digest_size=8).digest() for word in coded.dictionary.to_pylist()]
    table = np.frombuffer(b"".join([*words, b"missing!"]), np.uint64)
    return table[coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)]


def _look_for_lines(seen: Seen, columns: Columns, start: int, array: Any) -> None:
    """A text that runs over several lines may be one whose closing quote is missing: it has swallowed rows."""
    if any("runs over" in problem.message for problem in seen.problems):
        return
    broken = pa.compute.index(pa.compute.match_substring(array, "\n"), True).as_py()
    if broken >= 0:
        lines = str(array[broken].as_py()).count("\n") + 1
        seen.problem(
            "ragged", f"column {columns.name!r} in row {start + broken} runs over {lines} lines: a quote not closed?",
            start + broken,
        )  # fmt: skip


def _look_for_numbers(columns: Columns, start: int, array: Any) -> None:
    looks = pa.compute.match_substring_regex(array, _NUMBER)
    numeric = pa.compute.sum(looks).as_py() or 0
    columns.numeric += numeric
    if columns.odd_text is None and numeric < len(array):
        row = pa.compute.index(looks, False).as_py()
        columns.odd_text = (start + row, str(array[row].as_py())[:40]) if row >= 0 else None


def _count_words(columns: Columns, array: Any) -> None:
    if columns.values is None:
        return
    if pa.types.is_dictionary(array.type):
        array = array.cast(pa.string())
    counted = array.value_counts()
    if len(counted) > 2000:
        columns.values = None
        return
    for entry in counted:
        value = entry["values"].as_py()
        if value is not None:
            columns.values[value] = columns.values.get(value, 0) + entry["counts"].as_py()
    if len(columns.values) > 1000:
        columns.values = None


def _first(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:160] if lines else type(error).__name__


def columns_of(path: str, names: list[str]) -> Iterator[list[Matrix]]:
    """Named columns of a table once more, side by side, a chunk at a time."""
    if path.endswith((".parquet", ".pq")):
        for batch in pa.parquet.ParquetFile(path, memory_map=True).iter_batches(batch_size=ROWS, columns=names):
            yield [np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns]
        return
    for batch in batches(path, {}, []):
        yield [np.asarray(batch.column(name).to_numpy(zero_copy_only=False)) for name in names]
