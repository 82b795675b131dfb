"""The lines that a run may not cross: its budget, the limit it lives under, and what the machine has left."""

from __future__ import annotations

from ..facts import Danger, MemoryLimit
from ..machine.tree import ProcessTree, TreeReading
from . import danger, fence


class Lines:
    def __init__(
        self, budget: int | None, limit: MemoryLimit | None, tree: ProcessTree, made: fence.Fence | None, guarded: bool
    ) -> None:
        self._fenced = self._sampled = self._host = None
        if budget and made is not None:
            self._fenced = danger.FencedLine(made, "--memory")
        elif budget:
            self._sampled = danger.SampledLine(budget, "--memory", tree)
        elif guarded and limit is not None and danger.rules_at_limit(limit):
            self._sampled = danger.SampledLine(limit.bytes, limit.source, tree)
        if guarded:
            self._host = danger.HostLine(tree)

    @property
    def is_close(self) -> bool:
        """Whether every look counts."""
        return self._sampled is not None or (self._host is not None and self._host.is_near)

    @property
    def measured(self) -> int | None:
        """Bytes in use, where the line is held by measuring them."""
        return self._sampled.last if self._sampled is not None else None

    def interval(self, usual: float) -> float:
        """Seconds to the next look."""
        return usual if self._sampled is None else min(usual, self._sampled.interval())

    def check(self, now: float, reading: TreeReading, memory: dict[str, int]) -> Danger | None:
        found = self._sampled.check(now, reading) if self._sampled is not None else None
        found = found or self.check_fence(now)
        if found is None and self._host is not None:
            found = self._host.check(now, reading, memory)
        return found

    def check_fence(self, now: float) -> Danger | None:
        return self._fenced.check(now) if self._fenced is not None else None
