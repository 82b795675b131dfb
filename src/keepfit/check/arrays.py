"""NumPy files: `.npy` mapped into memory, `.npz` streamed out of its archive. Nothing is ever unpickled."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from .columns import Columns, Matrix
from .summary import Seen, Unreadable

CHUNK = 1 << 20  # bytes: what stays in the cache while it is looked at twice
Block = tuple[int, Matrix]  # (first row, rows x width)

# Version 3.0 differs from 2.0 in the encoding of field names alone, which nobody looks at here.
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
    (3, 0): np.lib.format.read_array_header_2_0,
}


def header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, Fortran order, type) of an array that begins here."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise Unreadable(f"version {version[0]}.{version[1]} of the format is not known")
        shape, fortran, dtype = _HEADERS[version](file)
    except ValueError as error:
        raise Unreadable(f"no NumPy array ({str(error).splitlines()[0][:80]})") from None
    if any(d < 0 for d in shape):
        raise Unreadable(f"a shape of {shape}")
    if dtype.hasobject:
        raise Unreadable("an array of Python objects would have to be unpickled, which runs code: refused")
    return tuple(int(d) for d in shape), bool(fortran), dtype


def mapped(path: str) -> Matrix:
    """The array of a `.npy` file, mapped."""
    with open(path, "rb") as file:
        shape, fortran, dtype = header(file)
        offset = file.tell()
        needs, has = offset + int(np.prod(shape)) * dtype.itemsize, os.fstat(file.fileno()).st_size
    if has < needs:
        raise Unreadable(f"truncated: {has} bytes where its header promises {needs}")
    if not needs - offset:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order="F" if fortran else "C")


def blocks(array: Matrix, size: int = CHUNK) -> Iterator[Block]:
    """An array's rows, a chunk at a time, as matrices."""
    flat = array.reshape(1, 1) if array.ndim == 0 else array
    width = int(np.prod(flat.shape[1:])) if flat.ndim > 1 else 1
    step = max(1, size // max(1, width * flat.dtype.itemsize))
    for start in range(0, len(flat), step):
        part = np.asarray(flat[start : start + step])
        yield start, part.reshape(len(part), width)


def member_blocks(file: IO[bytes], size: int = CHUNK) -> tuple[tuple[int, ...], np.dtype[Any], Iterator[Block]]:
    """An array inside an archive, a chunk at a time."""
    shape, fortran, dtype = header(file)
    width = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    rows = shape[0] if shape else 1
    if fortran and len(shape) > 1:
        return shape, dtype, blocks(_spilled(file, shape, dtype), size)
    step = max(1, size // max(1, width * dtype.itemsize))

    def stream() -> Iterator[Block]:
        for start in range(0, rows, step):
            count = min(step, rows - start)
            content = file.read(count * width * dtype.itemsize)
            if len(content) < count * width * dtype.itemsize:
                raise Unreadable(
                    f"truncated: the data ends in row {start + len(content) // max(1, width * dtype.itemsize)}"
                )
            yield start, np.frombuffer(content, dtype).reshape(count, width)

    return shape, dtype, stream()


def _spilled(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Matrix:
    """An array in Fortran order has its rows scattered over all of it: on disk first, then mapped."""
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy, CHUNK)
        needs = int(np.prod(shape)) * dtype.itemsize
        if copy.tell() < needs:
            raise Unreadable(f"truncated: {copy.tell()} bytes where its header promises {needs}")
        return np.memmap(copy, dtype=dtype, mode="r", shape=shape, order="F") if needs else np.zeros(shape, dtype)


def read_npy(
    path: str, seen: Seen, look: Callable[[Columns, int, Matrix], None], advance: Callable[[int], None]
) -> None:
    array = mapped(path)
    seen.rows, seen.read = (len(array) if array.ndim else 1), True
    columns = Columns("", array.dtype.name, tuple(array.shape[1:]))
    seen.columns.append(columns)
    for start, block in blocks(array):
        look(columns, start, block)
        advance(block.nbytes)


def read_npz(
    path: str, seen: Seen, look: Callable[[Columns, int, Matrix], None], advance: Callable[[int], None]
) -> None:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise Unreadable(f"no archive ({error})") from None
    with archive:
        for name in archive.namelist():
            try:
                with archive.open(name) as file:
                    shape, dtype, stream = member_blocks(file)
                    columns = Columns(name.removesuffix(".npy"), dtype.name, tuple(shape[1:]))
                    seen.columns.append(columns)
                    for start, block in stream:
                        look(columns, start, block)
                        advance(block.nbytes)
                seen.rows, seen.read = max(seen.rows, shape[0] if shape else 1), True
            except Unreadable as error:
                seen.problem("unreadable", f"{name}: {error}")
            except Exception as error:  # zlib's, encryption, methods that are not there
                seen.problem("damaged", f"{name}: {(str(error).splitlines() or [type(error).__name__])[0][:120]}")
    lengths = {columns.rows for columns in seen.columns}
    if len(lengths) > 1:
        seen.problem("lengths", f"its arrays have different numbers of rows: {', '.join(map(str, sorted(lengths)))}")
