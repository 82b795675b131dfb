"""keepfit keeps ``model.fit`` alive: it records, prevents, recovers and explains."""

from importlib import import_module as _import_module
from typing import Any as _Any

from ._version import __version__ as __version__
from .loops import accumulate as accumulate
from .loops import guard as guard
from .loops import steps as steps

# Loaded when they are used: they bring NumPy and Arrow, which nothing else here needs.
_LATE = {"check": ".check", "clean": ".data", "compare": ".data", "plan": ".plan"}


def __getattr__(name: str) -> _Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _import_module(_LATE[name], __name__)
    return module if name in ("check", "plan") else getattr(module, name)  # rooms that can be called
