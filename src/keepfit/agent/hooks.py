"""Putting a wrapper around a framework's function, and saying so when there is nothing to wrap."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .heart import Heart

Around = Callable[[Callable[..., Any]], Callable[..., Any]]


def wrap(owner: Any, name: str, around: Around, missing: list[str]) -> None:
    """Replace `owner.name` by `around(original)`. A name that is not there is added to `missing`."""
    original = getattr(owner, name, None)
    if original is None:
        missing.append(f"{getattr(owner, '__name__', owner)}.{name}")
        return
    replacement = functools.wraps(original)(around(original))
    setattr(owner, name, replacement)


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
