"""Putting a wrapper around a framework's function, and saying so when there is nothing to wrap.

Whoever reads a traceback, a warning or a profile reads of the program and not of us. A wrapper counts among Python's
import machinery, whose frames `warnings` passes over; and `hiding` takes ours out of what is raised.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import Any

from .heart import Heart

Around = Callable[[Callable[..., Any]], Callable[..., Any]]

MACHINERY = "<frozen importlib._bootstrap>"
_OURS = "_keepfit."  # what the names of our modules begin with
_DEEPEST = 100  # exceptions that are raised from each other


def wrap(owner: Any, name: str, around: Around, missing: list[str], entered: bool = False) -> None:
    """Replace `owner.name` by `around(original)`. A name that is not there is added to `missing`.

    `entered`: the program itself calls it, and what comes out of it goes to the program.
    """
    original = getattr(owner, name, None)
    if original is None:
        missing.append(f"{getattr(owner, '__name__', owner)}.{name}")
        return
    setattr(owner, name, wrapped(original, around, entered))


def wrapped(original: Callable[..., Any], around: Around, entered: bool = False) -> Callable[..., Any]:
    inner = unlabelled(around(original))
    return functools.wraps(original)(unlabelled(hiding(inner)) if entered else inner)


def hiding(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, and what it raises with the frames of the program, and those of the framework, alone."""

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            hide(error)
            raise

    return called


def unlabelled(call: Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(call, FunctionType):
        return call
    code = call.__code__.replace(co_filename=MACHINERY)
    same = FunctionType(code, call.__globals__, call.__name__, call.__defaults__, call.__closure__)
    same.__kwdefaults__ = call.__kwdefaults__
    return same


def hide(error: BaseException) -> None:
    """Take our frames out of its traceback, and out of those that it was raised from."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < _DEEPEST:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _without_ours(one.__traceback__)
        waiting += [one.__cause__, one.__context__]


def _without_ours(entry: TracebackType | None) -> TracebackType | None:
    first = entry = _next_of_others(entry)
    while entry is not None:
        following = _next_of_others(entry.tb_next)
        if following is not entry.tb_next:
            entry.tb_next = following
        entry = following
    return first


def _next_of_others(entry: TracebackType | None) -> TracebackType | None:
    while entry is not None and str(entry.tb_frame.f_globals.get("__name__")).startswith(_OURS):
        entry = entry.tb_next
    return entry


def during(heart: Heart, phase: str, only_from: str) -> Around:
    """A wrapper that is in `phase` while the wrapped call lasts, if it was called in phase `only_from`."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if heart.phase != only_from:
                return original(*args, **kwargs)
            before = heart.enter(phase)
            try:
                return original(*args, **kwargs)
            finally:
                heart.leave(before)

        return call

    return around
