"""Putting a wrapper around a framework's function, and saying so when there is nothing to wrap."""

import functools


def wrap(owner, name, around, missing):
    """Replace `owner.name` by `around(original)`. A name that is not there is added to `missing`."""
    original = getattr(owner, name, None)
    if original is None:
        missing.append("%s.%s" % (getattr(owner, "__name__", owner), name))
        return
    replacement = functools.wraps(original)(around(original))
    replacement.__keepfit_original__ = original
    setattr(owner, name, replacement)


def during(heart, phase, only_from):
    """A wrapper that is in `phase` while the wrapped call lasts, if it was called in phase `only_from`."""

    def around(original):
        def call(*args, **kwargs):
            if heart.phase != only_from:
                return original(*args, **kwargs)
            before = heart.enter(phase)
            try:
                return original(*args, **kwargs)
            finally:
                heart.leave(before)

        return call

    return around
