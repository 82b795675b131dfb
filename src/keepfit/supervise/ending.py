"""The end that keepfit puts to a command: to all of its processes, and waited for no longer than it can come."""

from __future__ import annotations

import time

from ..blackbox.journal import JournalWriter
from ..machine import procfs
from ..machine.tree import ProcessTree
from . import danger
from .fence import Fence

UNKILLABLE = 5.0  # seconds after SIGKILL: what has not ended by then waits in the kernel, and cannot


class Ending:
    def __init__(self, pid: int, tree: ProcessTree, journal: JournalWriter) -> None:
        self._pid = pid
        self._tree = tree
        self._journal = journal
        self._ended_at: float | None = None
        self.is_decided = False  # it may take a moment from there: stacks and numbers go into the record first

    def carry_out(self, fence: Fence | None) -> None:
        self.is_decided = True
        self._tree.discover()
        pids = set(self._tree.pids)
        if fence is not None:
            pids |= set(fence.level.members)
        danger.end(pids)
        self._ended_at = time.monotonic()
        if fence is not None:
            try:
                fence.let_go()
            except OSError as error:
                self._journal.write("trouble", what=f"the fence would not open: {error.strerror}")

    def of_the_rest(self) -> None:
        """Before another attempt: nothing of this one may live on beside it."""
        self._tree.discover()
        danger.end(self._tree.pids)

    def held_up_by(self, now: float) -> str | None:
        """What it waits for in the kernel, where it cannot be ended: that must not hold us as well."""
        if self._ended_at is None or now - self._ended_at < UNKILLABLE:
            return None
        return ", ".join(procfs.waiting_in(self._pid)) or "the kernel"
