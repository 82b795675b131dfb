"""A segmentation fault in native code, three calls below the user's own line."""

import ctypes


def decode(image: bytes) -> bytes:
    return ctypes.string_at(0, len(image))


def load_batch(size: int) -> list[bytes]:
    return [decode(bytes(64)) for _ in range(size)]


load_batch(8)
