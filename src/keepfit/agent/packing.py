"""Python values as JSON, exactly: what comes back equals what went in, to the bit and to the type.

Arrays go beside it as tensors. Whatever is neither plain data nor an array is refused by name; nothing is ever
pickled, and reading executes nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

Keep = Callable[[Any], str]  # puts an array beside the JSON; returns its name there
Fetch = Callable[[str], Any]  # and back


class Unpackable(Exception):
    """A value that is no plain data."""


def has_state(thing: Any) -> bool:
    """Whether it takes part by itself: `get_state` returns plain data, `set_state` takes it back."""
    return callable(getattr(thing, "get_state", None)) and callable(getattr(thing, "set_state", None))


def pack(value: Any, keep: Keep) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list:
        return [pack(item, keep) for item in value]
    if kind is tuple:
        return {"$tuple": [pack(item, keep) for item in value]}
    if kind is set:
        return {"$set": [pack(item, keep) for item in sorted(value, key=repr)]}
    if kind is bytes:
        return {"$bytes": value.hex()}
    if kind is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: pack(item, keep) for key, item in value.items()}
        return {"$dict": [[pack(key, keep), pack(item, keep)] for key, item in value.items()]}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biuf":
        return {"$scalar": keep(numpy.asarray(value).reshape(1))}
    if numpy is not None and kind is numpy.ndarray:
        if value.dtype.kind in "SU":
            return {"$strings": [str(value.dtype), list(value.shape), [pack(v, keep) for v in value.ravel().tolist()]]}
        return {"$tensor": keep(value)}
    if hasattr(value, "numpy") and hasattr(value, "shape"):  # a framework's tensor
        return {"$tensor": keep(value.numpy())}
    raise Unpackable(kind.__name__)


def unpack(value: Any, fetch: Fetch) -> Any:
    if isinstance(value, list):
        return [unpack(item, fetch) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, held),) = value.items()
        if name == "$float":
            return float(held)
        if name == "$tuple":
            return tuple(unpack(item, fetch) for item in held)
        if name == "$set":
            return {unpack(item, fetch) for item in held}
        if name == "$bytes":
            return bytes.fromhex(held)
        if name == "$dict":
            return {unpack(key, fetch): unpack(item, fetch) for key, item in held}
        if name == "$scalar":
            return fetch(held)[0]
        if name == "$tensor":
            return fetch(held)
        if name == "$strings":
            return sys.modules["numpy"].array([unpack(item, fetch) for item in held[2]], dtype=held[0]).reshape(held[1])
    return {key: unpack(item, fetch) for key, item in value.items()}
