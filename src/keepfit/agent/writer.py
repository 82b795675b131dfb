"""One thread that writes states to disk while the training goes on."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable

NICE = 10  # the training comes first
LAST = 60.0  # seconds the interpreter waits at its end for a state that is being written


class Writer:
    """At most one job at a time."""

    def __init__(self) -> None:
        self._job: Callable[[], None] | None = None
        self._wanted = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    @property
    def idle(self) -> bool:
        return self._job is None

    def submit(self, job: Callable[[], None]) -> None:
        """`job` must not raise."""
        with self._wanted:
            self._job = job
            if self._thread is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._thread = threading.Thread(target=self._work, name="keepfit-writer", daemon=True)
                self._thread.start()
                atexit.register(self.wait, LAST)
            self._wanted.notify_all()

    def wait(self, seconds: float) -> bool:
        """Until nothing is being written; False where that took too long."""
        with self._wanted:
            return self._wanted.wait_for(lambda: self._job is None, seconds)

    def _work(self) -> None:
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        except OSError:
            pass  # a sandbox: then at the training's own priority
        while True:
            with self._wanted:
                self._wanted.wait_for(lambda: self._job is not None)
                job = self._job
            assert job is not None
            job()
            with self._wanted:
                self._job = None
                job = None  # what it held is free now
                self._wanted.notify_all()
