"""TFRecord files, without TensorFlow: lengths and checksums of every record, and the features of its examples."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterator
from typing import IO

import google_crc32c
import numpy as np

from .columns import Columns
from .summary import Seen, Unreadable

LONGEST = 1 << 31  # bytes of a record: more is no length but damage
_MASK = 0xA282EAD8
_KINDS = {1: "bytes", 2: "float", 3: "int64"}


def masked_crc(content: bytes) -> int:
    crc: int = google_crc32c.value(content)
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def read(path: str, seen: Seen, advance: Callable[[int], None]) -> None:
    seen.read = True
    schema: dict[str, tuple[Columns, int]] = {}
    with open(path, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        file = gzip.GzipFile(fileobj=plain) if packed else plain
        for number, content in enumerate(_records(file, seen)):  # type: ignore[arg-type]
            seen.rows = number + 1
            advance(len(content) + 16)
            _look(content, number, schema, seen)
    seen.columns = [columns for columns, _ in schema.values()]
    for columns in seen.columns:
        columns.rows = seen.rows
    if not seen.rows and not seen.problems:
        seen.problem("empty", "holds no record")


def _records(file: IO[bytes], seen: Seen) -> Iterator[bytes]:
    number = offset = 0
    while True:
        try:
            head = file.read(12)
        except (OSError, EOFError) as error:
            seen.problem("damaged", f"cannot be read on after record {number}: {error}", number)
            return
        if not head:
            return
        if len(head) < 12:
            seen.problem("damaged", f"truncated in the head of record {number} (byte {offset})", number)
            return
        (length, crc) = struct.unpack("<QI", head)
        if masked_crc(head[:8]) != crc or length > LONGEST:
            seen.problem("damaged", f"record {number} (byte {offset}): its length is damaged, the rest is lost", number)
            return
        body = file.read(length + 4)
        if len(body) < length + 4:
            seen.problem("damaged", f"truncated in record {number} (byte {offset})", number)
            return
        content = body[:length]
        if masked_crc(content) != struct.unpack("<I", body[length:])[0]:
            seen.problem("damaged", f"record {number} (byte {offset}): its checksum is wrong", number)
        else:
            yield content
        offset += 12 + len(body)
        number += 1


def _look(content: bytes, number: int, schema: dict[str, tuple[Columns, int]], seen: Seen) -> None:
    """`schema`: by feature what is seen of it, and how many values the first record has."""
    try:
        found = features(content)
    except (ValueError, IndexError, KeyError, UnicodeDecodeError):
        return  # not an Example: a record may be anything
    if not schema:
        for name, (kind, length, _) in found.items():
            schema[name] = Columns(name, kind, (length,) if kind != "bytes" and length > 1 else ()), length
    for name in schema.keys() - found.keys():
        _once(seen, "features", f"record {number} has no feature {name!r}", number)
    for name, (kind, length, floats) in found.items():
        known, first = schema.get(name, (None, 0))
        if known is None:
            _once(seen, "features", f"record {number} has a feature {name!r} that the first has not", number)
            continue
        if kind != known.dtype:
            _once(seen, "type", f"feature {name!r} is {kind} in record {number} and {known.dtype} in the first", number)
            continue
        if kind != "bytes" and length != first:
            message = f"feature {name!r} has {length} values in record {number} and {first} in the first"
            _once(seen, "shape", message, number)
            known.shape = ()  # its values have no places of their own
        values = np.frombuffer(floats, "<f4")
        if not np.isfinite(values).all():
            known.bad.see(number, values.reshape(1, -1))


def _once(seen: Seen, kind: str, message: str, row: int) -> None:
    if sum(problem.kind == kind for problem in seen.problems) < 3:
        seen.problem(kind, message, row)


# --- the few lines of protocol buffers that an Example is made of ------------------------------------------------


def features(content: bytes) -> dict[str, tuple[str, int, bytes]]:
    """{name: (kind, number of values, float values)} of a serialized tf.train.Example; ValueError where it is none."""
    found = {}
    for field, wire, value in _fields(content):
        if (field, wire) != (1, 2):
            raise ValueError("not an Example")
        for entry, entry_wire, pair in _fields(value):
            if (entry, entry_wire) != (1, 2):
                raise ValueError("not an Example")
            parts = {number: part for number, _, part in _fields(pair)}
            found[parts[1].decode()] = _feature(parts.get(2, b""))
    return found


def _feature(content: bytes) -> tuple[str, int, bytes]:
    for number, wire, value in _fields(content):
        if wire == 2 and number in _KINDS:
            return _KINDS[number], *_values(number, value)
    return "bytes", 0, b""


def _values(kind: int, content: bytes) -> tuple[int, bytes]:
    """(how many, the bytes of floats): packed, as writers do it, or one by one."""
    count, floats = 0, b""
    for _, wire, value in _fields(content):
        if kind == 2:
            floats += value[: len(value) // 4 * 4]
        elif wire != 2 or kind == 1:
            count += 1
        else:
            count += len(value) - sum(map((0x7F).__lt__, value))
    return (len(floats) // 4, floats) if kind == 2 else (count, b"")


def _fields(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        wire = key & 7
        if wire == 0:
            start = at
            _, at = _varint(content, at)
            yield key >> 3, wire, content[start:at]
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield key >> 3, wire, content[at : at + size]
            at += size
        elif wire == 2:
            size, at = _varint(content, at)
            if at + size > len(content):
                raise ValueError("a field goes beyond its message")
            yield key >> 3, wire, content[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {wire}")


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number without an end")


def is_record_file(path: str) -> bool:
    """Whether it begins like one: the checksum of the first length tells."""
    try:
        with open(path, "rb") as file:
            head = file.read(12)
    except OSError as error:
        raise Unreadable(str(error.strerror)) from None
    return len(head) == 12 and masked_crc(head[:8]) == struct.unpack("<I", head[8:])[0]
