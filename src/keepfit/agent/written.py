"""Files that the script opened to write to, as Python sees them: told where it is run only to be planned."""

from __future__ import annotations

import os
import sys
from typing import Any

MANY = 50
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
# Not the script's own doing: devices, what Python compiles, what frameworks and we keep for ourselves.
_OTHERS = ("/dev/", "/proc/", "/sys/")
_GENERATED = ("__pycache__", "__autograph_generated_file")

paths: list[str] = []


def watch() -> None:
    """From now on, for as long as the process lives: audit hooks cannot be taken away again."""
    sys.addaudithook(_audit)


def kept() -> list[str]:
    """Those that are still there, but for what we write ourselves."""
    ours = os.environ.get("KEEPFIT_RECORD", "")
    return [path for path in paths if os.path.isfile(path) and not (ours and path.startswith(ours))]


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or len(paths) >= MANY:
        return
    path, mode, flags = arguments
    writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITING)
    if not writes or not isinstance(path, (str, bytes, os.PathLike)):
        return
    name = os.path.abspath(os.fsdecode(path))
    if not name.startswith(_OTHERS) and not any(word in name for word in _GENERATED) and name not in paths:
        paths.append(name)
