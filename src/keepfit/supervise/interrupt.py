"""Ctrl-C while something is measured: what is known by then is kept, and the one who typed it need not wait."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class Interrupt:
    """As long as nothing is known it ends us as ever. From then on it is noted, for us to come to an end by ourselves;
    a second one does not wait for that."""

    def __init__(self) -> None:
        self.came = False
        self._known = False
        self._before: object = None

    def __enter__(self) -> Interrupt:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:  # whoever ignores it, or has it for something else, keeps that
            signal.signal(signal.SIGINT, self._met)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._before is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def keep(self) -> None:
        """Something is known."""
        self._known = True

    def _met(self, number: int, frame: FrameType | None) -> None:
        if self.came or not self._known:
            signal.default_int_handler(number, frame)
        self.came = True
