"""Waiting for a framework: an import hook that does nothing until one of a few names is imported."""

import os
import sys

from . import heart

# What to do once the named framework has been imported: module below this package, loaded late.
FRAMEWORKS = {"tensorflow": ".tensorflow.phases", "keras": ".keras.phases", "torch": None, "jax": None}


def listen(journal, pulse):
    sys.meta_path.insert(0, _Finder(journal, pulse))


class _Finder:
    """Sees every import first, answers none, and follows the few it is interested in."""

    def __init__(self, journal, pulse):
        self._journal = journal
        self._pulse = pulse
        self._following = set()
        self._heart = None
        self._pid = os.getpid()

    def find_spec(self, name, path=None, target=None):
        if name not in FRAMEWORKS or name in self._following or os.getpid() != self._pid:
            return None
        self._following.add(name)
        try:
            spec = self._find(name, path)
            if spec is not None:
                self._follow(name, spec)
            return spec
        except Exception as error:  # the import itself must go on
            self._failed(name, error)
            return None

    def _find(self, name, path):
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, None)
                if spec is not None:
                    return spec
        return None

    def _follow(self, name, spec):
        run = getattr(spec.loader, "exec_module", None)
        if run is None:
            return
        if self._heart is None:
            self._heart = heart.claim(self._pulse) or heart.Heart.silent()
        beating = self._heart

        def exec_module(module):
            # Frameworks import each other: only the outermost import ends the phase.
            outermost = beating.phase != "import"
            before = beating.enter("import")
            try:
                run(module)
            finally:
                if outermost:
                    beating.leave("data" if before == "start" else before)
            self._arrived(name, module)

        spec.loader.exec_module = exec_module

    def _arrived(self, name, module):
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

    def _failed(self, name, error):
        from .lifeline import describe

        self._journal.write("agent", state="failed", framework=name, error=describe(error))
