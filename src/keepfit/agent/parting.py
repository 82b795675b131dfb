"""A polite end: asked to stop in the middle of a training, the process first saves where it is.

Only while a `fit` runs, in the main thread, and only where nobody else handles the signal. At the next boundary
between two steps the state is saved, and then the signal does what it would have done at once. A second signal,
or a step that does not end within the grace time, is not waited for.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

GRACE = 10.0  # seconds
_PARTING = (signal.SIGTERM, signal.SIGINT)
_SAVING = (signal.SIGUSR1,)


class Parting:
    def __init__(self, hurry: Callable[[], None]) -> None:
        self._hurry = hurry
        self.waits = False  # for a state to be saved
        self._before: dict[int, Any] = {}
        self._asked: int | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (*_PARTING, *_SAVING):
            known = signal.getsignal(number)
            if known in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = known
                signal.signal(number, self._arrived)

    def __exit__(self, *_: object) -> None:
        for number, known in self._before.items():
            if signal.getsignal(number) == self._arrived:
                signal.signal(number, known)
        self._before.clear()
        self._forget()
        if self._asked is not None:  # the training ended before its next boundary
            self._go()

    def _arrived(self, number: int, frame: Any) -> None:
        self.waits = True
        self._hurry()
        if number in _SAVING:
            return
        if self._asked is not None:  # once more, or the grace time is over
            self._asked = number
            self._go()
            return
        self._asked = number
        self._timer = threading.Timer(GRACE, os.kill, (os.getpid(), number))
        self._timer.daemon = True
        self._timer.start()

    def saved(self) -> None:
        """A state was written at a boundary between two steps: nothing is left to wait for."""
        self.waits = False
        if self._asked is not None:
            self._go()

    def _go(self) -> None:
        number, self._asked = self._asked, None
        assert number is not None
        self._forget()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(number, self._before.get(number, signal.SIG_DFL))
        os.kill(os.getpid(), number)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
