"""The safetensors file format: a JSON header, then the bytes of the tensors, one after the other.

Standard library only: the agent imports this too. The tensors are handed over one at a time and written as they
come, so that a large state never has to lie in memory twice; nothing in a file is ever executed.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")
MAX_HEADER = 100_000_000  # bytes; as the library has it
CHUNK = 4 << 20  # written and checked in pieces of this size

# Names of element types, and their sizes in bytes.
SIZES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip


class Damaged(Exception):
    """The file is not what was written: in words, how."""


@dataclass(frozen=True)
class Slot:
    """One tensor of a file: what it is, and where its bytes lie."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        count = SIZES[self.dtype]
        for dimension in self.shape:
            count *= dimension
        return count


def header(slots: Sequence[Slot]) -> bytes:
    """The beginning of a file that holds these tensors, in this order."""
    table: dict[str, Any] = {}
    offset = 0
    for slot in slots:
        if slot.name in table:
            raise ValueError(f"two tensors are called {slot.name!r}")
        table[slot.name] = {
            "dtype": slot.dtype,
            "shape": list(slot.shape),
            "data_offsets": [offset, offset + slot.bytes],
        }
        offset += slot.bytes
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of eight
    return _LENGTH.pack(len(text)) + text


def write(file: BinaryIO, slots: Sequence[Slot], contents: Iterable[Any]) -> str:
    """Header and tensors (buffers, in the order of `slots`), as they come; returns the file's SHA-256."""
    import hashlib

    digest = hashlib.sha256()
    beginning = header(slots)
    file.write(beginning)
    digest.update(beginning)
    for slot, content in zip(slots, contents):  # noqa: B905  (the agent may run on a Python without `strict`)
        view = memoryview(content).cast("B")
        if len(view) != slot.bytes:
            raise ValueError(f"{slot.name}: {slot.bytes} bytes were expected; received {len(view)}")
        for start in range(0, len(view), CHUNK):
            piece = view[start : start + CHUNK]
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


class Reader:
    """The tensors of a file, by name; every byte range is checked against the file before it is believed."""

    def __init__(self, fd: int) -> None:
        self._file = open(fd, "rb")  # noqa: SIM115  (closed by `close`)
        try:
            self._read_header(os.fstat(self._file.fileno()).st_size)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, struct.error) as error:
            self._file.close()
            raise Damaged(f"not a safetensors file ({error})") from None

    def _read_header(self, size: int) -> None:
        (length,) = _LENGTH.unpack(self._file.read(_LENGTH.size))
        if length > MAX_HEADER or _LENGTH.size + length > size:
            raise ValueError(f"a header of {length} bytes in a file of {size}")
        table = json.loads(self._file.read(length))
        self._start = _LENGTH.size + length
        self.slots: dict[str, Slot] = {}
        self._places: dict[str, int] = {}
        end = 0
        for name, entry in table.items():
            if name == "__metadata__":
                continue
            slot = Slot(name, entry["dtype"], tuple(int(d) for d in entry["shape"]))
            first, last = entry["data_offsets"]
            if slot.dtype not in SIZES or min(slot.shape, default=0) < 0 or last - first != slot.bytes or first < 0:
                raise ValueError(f"{name}: {entry}")
            self.slots[name] = slot
            self._places[name] = int(first)
            end = max(end, int(last))
        if self._start + end != size:
            raise ValueError(f"{size} bytes where {self._start + end} were expected")

    def read(self, name: str) -> bytearray:
        slot = self.slots[name]
        content = bytearray(slot.bytes)
        self._file.seek(self._start + self._places[name])
        if self._file.readinto(content) != slot.bytes:
            raise Damaged(f"{name}: its bytes end early")
        return content

    def close(self) -> None:
        self._file.close()


def sha256_of(file: BinaryIO) -> str:
    """Of all that comes from here to the file's end."""
    import hashlib

    digest = hashlib.sha256()
    while piece := file.read(CHUNK):
        digest.update(piece)
    return digest.hexdigest()
