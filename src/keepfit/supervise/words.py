"""A line of keepfit's own to whoever reads stderr."""

from __future__ import annotations

import contextlib
import os


def complain(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody is reading, or nothing may be written there
        os.write(2, f"keepfit: {text}\n".encode(errors="backslashreplace"))
