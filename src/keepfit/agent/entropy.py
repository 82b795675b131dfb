"""An unseeded script is random, but the same random in every attempt of a run.

What the system gave Python's and NumPy's global generators at the first attempt is written down when they are
imported, and given to them again in every later one. A shuffle of tf.data that has no seed gets a private one.
So a re-run draws the same split and the same order, without anything having been seeded; whoever sets a seed of
his own overrides all of it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


class Entropy:
    """The beginnings of one process' random generators."""

    def __init__(self, record: str, identity: str) -> None:
        self.identity = identity
        folder = os.path.join(record, "entropy")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._path = os.path.join(folder, f"{identity}.json")
        self._known: dict[str, Any] = {}
        try:
            with open(self._path) as file:
                self._known = json.load(file)
        except (OSError, ValueError):
            self._known = {}
        if not isinstance(self._known.get("seed"), int):
            self._remember("seed", int.from_bytes(os.urandom(8), "little"))
        self.seed: int = self._known["seed"]

    def arrived(self, name: str, module: Any) -> None:
        """`random` or `numpy.random` has just been imported."""
        if name == "random":
            if name in self._known:
                version, state, gauss = self._known[name]
                module.setstate((version, tuple(state), gauss))
            else:
                self._remember(name, list(module.getstate()))
        elif name == "numpy.random":
            if name in self._known:
                kind, keys, position, has_gauss, gauss = self._known[name]
                numpy = sys.modules["numpy"]
                module.set_state((kind, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, gauss))
            else:
                kind, keys, position, has_gauss, gauss = module.get_state()
                self._remember(name, [kind, keys.tolist(), int(position), int(has_gauss), float(gauss)])

    def _remember(self, name: str, value: Any) -> None:
        self._known[name] = value
        beside = f"{self._path}.{os.getpid()}"
        with open(beside, "w") as file:
            json.dump(self._known, file)
        os.replace(beside, self._path)
