"""Which process of a run is this? The same command line, the n-th time in its attempt: so the next one knows it again.

A run may start several programs, one after the other. What one of them saved is not gone on from by another.
"""

from __future__ import annotations

import hashlib
import os


def of_this_process(record: str, command_line: str) -> str:
    if os.environ.get("KEEPFIT_FRONT") == str(os.getppid()):
        return "command"  # whatever its arguments: a resume that was asked for may have changed them
    key = hashlib.sha256(f"{command_line}\n{os.getcwd()}".encode()).hexdigest()[:12]
    own = f"{key} {os.getpid()}"
    path = os.path.join(record, f"processes-{os.environ.get('KEEPFIT_ATTEMPT', '1')}")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, f"{own}\n".encode())
    finally:
        os.close(fd)
    with open(path) as file:
        alike = [line.strip() for line in file if line.startswith(key)]
    return f"{key}-{alike.index(own) + 1}"
