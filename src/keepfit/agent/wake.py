"""Waking up: what happens when a framework is imported."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..blackbox import folder
from ..blackbox.journal import JournalWriter
from . import descriptors, heart, written
from .lifeline import describe

# What to do once the named framework has been imported: a module of the agent's, loaded then.
FRAMEWORKS: dict[str, str | None] = {
    "tensorflow": "_keepfit.agent.tensorflow.phases",
    "keras": "_keepfit.agent.keras.phases",
    "tf_keras": "_keepfit.agent.tf_keras.phases",
    "torch": None,
    "jax": None,
}


class Waking:
    """The agent of one process, from the moment on at which it may come to train."""

    def __init__(self, process: Any, stirring: Any) -> None:
        folder.lift = descriptors.lift
        self._process, self._stirring = process, stirring
        fd, open_again = process.journal()
        self.journal = JournalWriter(open_again, fd)
        self._heart = heart.Heart.silent()
        self._asked = False
        if process.planned:
            written.watch()

    def importing(self, name: str, module: ModuleType, run: Callable[[ModuleType], None]) -> None:
        """`run(module)` is the import; whatever it does, the user meets it as without us."""
        beating = self._beating()
        # Frameworks import each other: only the outermost import ends the phase.
        outermost = beating.phase != "import"
        before = beating.enter("import")
        try:
            run(module)
        finally:
            if outermost:
                beating.leave("data" if before == "start" else before)
        self._arrived(name, module)

    @staticmethod
    def hide(error: BaseException) -> None:
        from .hooks import hide

        hide(error)

    def _beating(self) -> heart.Heart:
        """The heart, asked for once."""
        if not self._asked:
            self._asked = True
            planned = self._process.planned
            self._heart = heart.claim(os.environ.get("KEEPFIT_PULSE", ""), alone=not planned) or self._heart
            if planned and not self._heart.alive:
                os._exit(1)  # nobody is there who would end it before it trains
            self._heart.journal = self.journal
            self._heart.identity, self._heart.seed = self._stirring.identity, self._stirring.seed
        return self._heart

    def _arrived(self, name: str, module: ModuleType) -> None:
        beating, process = self._heart, self._process
        try:
            adapter = FRAMEWORKS[name]
            if adapter is not None and beating.alive:
                missing = self._stirring.ours(adapter).install(module, beating)
                if missing:
                    self.journal.write("agent", state="partly", framework=name, missing=missing)
            version = vars(module).get("__version__")  # a package may have a `__getattr__` that is not ours to call
            self.journal.write(
                "agent", state="awake", framework=name, version=version, pid=process.pid, beats=beating.alive
            )
        except Exception as error:
            self.journal.write("agent", state="failed", framework=name, error=describe(error))
