"""JSON of unknown origin as facts: of the type that each field has, or not at all.

A journal may be torn, older, newer, or written by somebody who means harm. A value that is not what its field says is
as good as not there: the field has its default, and where it has none there is no such fact.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Read = Callable[[object], Any]  # raises ValueError for what is of another kind

LARGEST = float(1 << 62)  # of any number; times and bytes are far below
LONGEST = 1 << 20  # letters of one text
DEEPEST = 32  # of what is nested in a value that has no type


def fact(cls: type[T], data: object) -> T | None:
    """A fact from its JSON form; None where that is of another shape."""
    if not isinstance(data, Mapping):
        return None
    values = {}
    for name, read in _readers(typing.cast(Any, cls)).items():
        if name in data:
            try:
                values[name] = read(data[name])
            except ValueError:
                continue
    try:
        return cls(**values)
    except TypeError:  # something that it cannot do without
        return None


def facts(cls: type[T], items: object) -> tuple[T, ...]:
    found = (fact(cls, item) for item in items) if isinstance(items, list) else ()
    return tuple(item for item in found if item is not None)


def whole(value: object, default: int = 0) -> int:
    found: int = _or(_whole, value, default)
    return found


def number(value: object, default: float = 0.0) -> float:
    found: float = _or(_number, value, default)
    return found


def text(value: object, default: str = "") -> str:
    found: str = _or(_text, value, default)
    return found


def texts(value: object) -> tuple[str, ...]:
    """The texts of a list; what else is in it is left out."""
    return tuple(_text(word) for word in value if isinstance(word, str)) if isinstance(value, list) else ()


def mapping(value: object) -> dict[str, Any]:
    return _or(_plain, value, {}) if isinstance(value, Mapping) else {}


def plain(value: object) -> Any:
    """The same JSON with what cannot be JSON again (NaN, infinity) as null, and nothing nested too deeply."""
    return _plain(value)


def _or(read: Read, value: object, default: Any) -> Any:
    try:
        return read(value)
    except ValueError:
        return default


# --- of the type that a field has ----------------------------------------------------------------------


@cache
def _readers(cls: type) -> dict[str, Read]:
    hints = typing.get_type_hints(cls)
    return {field.name: _reader(hints[field.name]) for field in dataclasses.fields(cls)}


def _reader(kind: Any) -> Read:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (one,) = (each for each in inner if each is not type(None))
        read = _reader(one)
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        return _items(_reader(inner[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_of(_reader(inner[1]))
    if dataclasses.is_dataclass(kind):
        return lambda value: _required(fact(typing.cast(type, kind), value))
    raise TypeError(f"no way to read {kind}")


def _items(read: Read) -> Read:
    def items(value: object) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise ValueError
        found = []
        for one in value:
            try:
                found.append(read(one))
            except ValueError:
                continue
        return tuple(found)

    return items


def _mapping_of(read: Read) -> Read:
    def values(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError
        found = {}
        for name, one in value.items():
            try:
                found[str(name)] = read(one)
            except ValueError:
                continue
        return found

    return values


def _required(value: T | None) -> T:
    if value is None:
        raise ValueError
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
        raise ValueError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise ValueError
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    # Halves of letters are JSON, and no UTF-8: no file, terminal or database takes them.
    return value[:LONGEST].encode("utf-8", "backslashreplace").decode()


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _plain(value: object, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError
    if value is None or isinstance(value, (bool, str)):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return value if abs(value) <= LARGEST else None
    if isinstance(value, float):
        return value if math.isfinite(value) and abs(value) <= LARGEST else None
    if isinstance(value, (list, tuple)):
        return [_plain(one, depth + 1) for one in value]
    if isinstance(value, Mapping):
        return {_text(str(name)): _plain(one, depth + 1) for name, one in value.items()}
    raise ValueError


_SIMPLE: dict[Any, Read] = {int: _whole, float: _number, str: _text, bool: _truth, Any: _plain}
