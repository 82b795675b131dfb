"""A budget that cannot even hold the framework: the import may end beyond it, so that the number can be told."""

from __future__ import annotations

from ..blackbox.pulse import Pulse
from ..facts import Danger
from .fence import Fence

ROOM = 4 << 30  # bytes beyond the budget that an import may take, to be measured
SECONDS = 60.0


class Import:
    def __init__(self, pulse: Pulse | None, budget: int | None) -> None:
        self._pulse = pulse
        self._budget = budget or 0
        self._began: float | None = None  # when it outgrew the budget

    @property
    def is_measured(self) -> bool:
        return self._began is not None

    def is_meant(self, found: Danger) -> bool:
        """Whether it is an import that stands at the line."""
        return found.source == "--memory" and self._pulse is not None and self._pulse.phase == "import"

    def goes_on(self, found: Danger, fence: Fence | None) -> bool:
        """Whether it may go on to be measured; else it is refused without the number."""
        if self._began is not None or fence is None:
            return False
        try:
            fence.widen(found.line_bytes + ROOM)
        except OSError:
            return False
        self._began = found.time
        return True

    def outcome(self, now: float, fence: Fence | None) -> Danger | None:
        """What it took, once it has ended or taken too much or too long."""
        assert self._began is not None and self._pulse is not None
        over = fence is not None and fence.reached()
        if self._pulse.phase == "import" and not over and now - self._began < SECONDS:
            return None
        use = (fence.level.use if fence is not None else None) or self._budget
        return Danger(now, self._budget, use, "--memory", "import")
