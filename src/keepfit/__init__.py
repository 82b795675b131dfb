"""keepfit keeps ``model.fit`` alive: it records, prevents, recovers and explains."""

from typing import TYPE_CHECKING
from typing import Any as _Any

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .loops import accumulate as accumulate
    from .loops import guard as guard
    from .loops import steps as steps

# Loaded when they are used: `keepfit run` starts in a moment, and NumPy and Arrow come only where they are needed.
_LATE = {
    "accumulate": ".loops",
    "guard": ".loops",
    "steps": ".loops",
    "check": ".check",
    "clean": ".data",
    "compare": ".data",
    "plan": ".plan",
}


def __getattr__(name: str) -> _Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(_LATE[name], __name__)
    return module if name in ("check", "plan") else getattr(module, name)  # rooms that can be called
