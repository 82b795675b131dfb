"""Waiting for a framework: an import hook that does nothing until one of a few names is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..blackbox.journal import JournalWriter
from . import heart
from .entropy import Entropy

GENERATORS = ("random", "numpy.random")  # whose beginnings are the same in every attempt
# What to do once the named framework has been imported: module below this package, loaded late.
FRAMEWORKS: dict[str, str | None] = {
    "tensorflow": ".tensorflow.phases",
    "keras": ".keras.phases",
    "tf_keras": ".tf_keras.phases",
    "torch": None,
    "jax": None,
}


def listen(journal: JournalWriter, pulse: str, entropy: Entropy | None = None) -> None:
    sys.meta_path.insert(0, _Finder(journal, pulse, entropy))
    for name in GENERATORS:
        if entropy is not None and name in sys.modules:
            entropy.arrived(name, sys.modules[name])


class _Finder:
    """Sees every import first, answers none, and follows the few it is interested in."""

    def __init__(self, journal: JournalWriter, pulse: str, entropy: Entropy | None) -> None:
        self._journal = journal
        self._pulse = pulse
        self._entropy = entropy
        # Being looked for is not being imported: TensorFlow asks whether there is a keras long before it takes it.
        self._executed: set[str] = set()
        self._heart = heart.Heart.silent()
        self._asked = False
        self._planned = bool(os.environ.get("KEEPFIT_PLAN"))
        self._pid = os.getpid()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        generator = self._entropy is not None and name in GENERATORS
        if not (generator or name in FRAMEWORKS) or name in self._executed:
            return None
        if os.getpid() != self._pid and not self._planned:  # a forked child: it may train what is only planned
            return None
        try:
            spec = self._find(name, path)
            if spec is not None:
                (self._follow_generator if generator else self._follow)(name, spec)
            return spec
        except Exception as error:  # the import itself must go on
            self._failed(name, error)
            return None

    def _find(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec: ModuleSpec | None = finder.find_spec(name, path, None)
                if spec is not None:
                    return spec
        return None

    def _follow_generator(self, name: str, spec: ModuleSpec) -> None:
        run = getattr(spec.loader, "exec_module", None)
        if run is None:
            return
        entropy = self._entropy

        def exec_module(module: ModuleType) -> None:
            self._executed.add(name)
            run(module)
            try:
                if entropy is not None:
                    entropy.arrived(name, module)
            except Exception as error:
                self._failed(name, error)

        loader: Any = spec.loader
        loader.exec_module = exec_module

    def _follow(self, name: str, spec: ModuleSpec) -> None:
        run = getattr(spec.loader, "exec_module", None)
        if run is None:
            return
        if not self._asked:
            self._asked = True
            self._heart = heart.claim(self._pulse, alone=not self._planned) or self._heart
            if self._planned and not self._heart.alive:
                os._exit(1)  # nobody is there who would end it before it trains
            self._heart.journal = self._journal
            self._heart.entropy = self._entropy
        beating = self._heart

        def exec_module(module: ModuleType) -> None:
            self._executed.add(name)
            # Frameworks import each other: only the outermost import ends the phase.
            outermost = beating.phase != "import"
            before = beating.enter("import")
            try:
                run(module)
            finally:
                if outermost:
                    beating.leave("data" if before == "start" else before)
            self._arrived(name, module)

        loader: Any = spec.loader  # this one instance: its type, which others look at, stays what it was
        loader.exec_module = exec_module

    def _arrived(self, name: str, module: ModuleType) -> None:
        beating = self._heart
        version = getattr(module, "__version__", None)
        try:
            adapter = FRAMEWORKS[name]
            if adapter is not None and beating.alive:
                from importlib import import_module

                missing = import_module(adapter, __package__).install(module, beating)
                if missing:
                    self._journal.write("agent", state="partly", framework=name, missing=missing)
            self._journal.write(
                "agent", state="awake", framework=name, version=version, pid=self._pid, beats=beating.alive
            )
        except Exception as error:
            self._failed(name, error)

    def _failed(self, name: str, error: Exception) -> None:
        from .lifeline import describe

        self._journal.write("agent", state="failed", framework=name, error=describe(error))
