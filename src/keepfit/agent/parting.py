"""A polite end: asked to stop in the middle of a training, the process first saves where it is.

Only while a `fit` runs, in the main thread, and only where nobody else handles the signal. At the next boundary
between two steps the state is saved, and then the signal does what it would have done at once. A second signal is
not made to wait; neither is the first one beyond its grace time, whatever the main thread is stuck in.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from . import descriptors

GRACE = 10.0  # seconds
ECHO = 1.0  # a signal to all processes of a job comes twice: directly, and through keepfit
_PARTING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SAVING = (signal.SIGUSR1,)


class Parting:
    def __init__(self, hurry: Callable[[], None]) -> None:
        self._hurry = hurry
        self.waits = False  # for a state to be saved
        self._before: dict[int, Any] = {}
        self._asked: int | None = None
        self._asked_at = 0.0
        self._settled = threading.Event()
        self._ear: tuple[int, int] | None = None  # a pipe into which signals are written the moment they arrive
        self._registered = False

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (*_PARTING, *_SAVING):
            known = signal.getsignal(number)
            if known in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = known
                signal.signal(number, self._arrived)
        if self._before:
            self._listen()

    def __exit__(self, *_: object) -> None:
        if not self._before:  # not entered: another thread, or every signal was somebody's already
            return
        self._give_back()
        if self._asked is not None:  # the training ended before its next boundary
            self._go()

    def _give_back(self) -> None:
        for number, known in self._before.items():
            if signal.getsignal(number) == self._arrived:
                signal.signal(number, known)
        if self._ear is not None and signal.set_wakeup_fd(-1) != self._ear[1]:
            self._ear = None  # somebody has taken it over meanwhile; then our thread hears nothing more
        self._before.clear()
        self._settled.set()

    # --- in the main thread ---------------------------------------------------------------------------

    def _arrived(self, number: int, frame: Any) -> None:
        self.waits = True
        self._hurry()
        if number in _SAVING:
            return
        now = time.monotonic()
        if self._asked is None:
            self._asked, self._asked_at = number, now
        elif number != self._asked or now - self._asked_at > ECHO:  # once more, or the grace time is over
            self._asked = number
            self._go()

    def saved(self) -> None:
        """A state was written at a boundary between two steps: nothing is left to wait for."""
        self.waits = False
        if self._asked is not None:
            self._go()

    def _go(self) -> None:
        number, self._asked = self._asked, None
        assert number is not None
        self._settled.set()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # --- beside it ------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """A thread that hears signals even while the main thread is stuck in native code."""
        self._settled.clear()
        if self._ear is None:
            read, write = (descriptors.lift(fd) for fd in os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))
            os.set_blocking(read, True)
            self._ear = read, write
            threading.Thread(target=self._hear, args=(read,), name="keepfit-parting", daemon=True).start()
        other = signal.set_wakeup_fd(self._ear[1], warn_on_full_buffer=False)
        if other != -1:  # an event loop uses it: it keeps it
            signal.set_wakeup_fd(other, warn_on_full_buffer=False)
        if not self._registered:
            self._registered = True
            os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        """A worker that was forked in mid-training ends when it is told to, and says nothing into our pipe."""
        if self._ear is not None and threading.current_thread() is threading.main_thread():
            self._ear = None
            if self._before:
                signal.set_wakeup_fd(-1)
                self._give_back()

    def _hear(self, ear: int) -> None:
        while True:
            try:
                heard = os.read(ear, 64)
            except OSError:  # closed by a program that closes what it does not know
                return
            for number in heard:
                if number in _PARTING and self._before and not self._settled.wait(GRACE):
                    if number != signal.SIGINT:  # where Python's own handler never came to run
                        ctypes.CDLL(None).signal(number, 0)
                    os.kill(os.getpid(), number)
