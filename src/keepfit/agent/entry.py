"""The agent's start in a fresh interpreter: arm the lifeline, wait for a framework, cost nothing else."""

from __future__ import annotations

import os
import sys

from ..blackbox.journal import JournalWriter
from . import identity, lifeline, wake, written
from .entropy import Entropy

# Command lines of interpreters that Python's own machinery starts: they are left alone, unless they might train what
# is only to be planned.
_WORKERS = (
    "--multiprocessing-fork",
    "from multiprocessing.",
    "joblib.externals.loky",
    "ipykernel_launcher --subprocess",
)


def is_worker(command_line: str) -> bool:
    return any(mark in command_line for mark in _WORKERS)


def start(record: str) -> None:
    """Called once, from sitecustomize, before the user's first line."""
    with open("/proc/self/cmdline", "rb") as file:
        command_line = file.read().replace(b"\0", b" ").decode("utf-8", "replace")
    planned = bool(os.environ.get("KEEPFIT_PLAN"))
    if is_worker(command_line) and not planned:
        return
    if planned:
        written.watch()
    journal = JournalWriter(os.path.join(record, "journal.jsonl"))
    armed = lifeline.arm(record, journal)
    wake.listen(journal, os.environ.get("KEEPFIT_PULSE", ""), _entropy(record, command_line))
    journal.write(
        "agent",
        state="ready",
        pid=os.getpid(),
        parent=os.getppid(),
        python=sys.version.split()[0],
        executable=sys.executable,
        stack_signal=armed,
    )


def _entropy(record: str, command_line: str) -> Entropy | None:
    """What this process began with; None where nothing is kept of it."""
    if not os.environ.get("KEEPFIT_STATES"):
        return None
    try:
        return Entropy(record, identity.of_this_process(record, command_line))
    except (OSError, ValueError):
        return None
