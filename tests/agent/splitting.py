"""A model trained whole and split, side by side: the guard as it is, with a supervisor that answers as scripted."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from keepfit.agent.heart import Pace

ROWS = 22
BATCH = 9  # 22 rows: 9, 9 and a ragged 4


class Scripted:
    """Stands in for the supervisor: wants micro-batches of `rows`, after trials where asked for."""

    def __init__(self) -> None:
        self.limit = 1 << 40
        self.wish = 0
        self.rows = 0
        self.trials: list[int] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.when_ready: Any = lambda: None  # everything is built, nothing was computed yet

    def ask(self, what: str, **facts: Any) -> dict[str, Any] | None:
        self.asked.append((what, facts))
        if what == "splitting":
            self.when_ready()
        if what in ("batch", "tried"):
            if self.trials:
                return {"do": "try", "rows": self.trials.pop(0)}
            return {"do": "split", "rows": self.rows} if self.rows else {"do": "whole"}
        if what == "exhausted":
            return {"rows": max(1, facts["rows"] // 2)}
        return {}

    def told(self, what: str) -> list[dict[str, Any]]:
        return [facts for asked, facts in self.asked if asked == what]


class Told:
    """Stands in for the journal."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def write(self, event: str, **facts: Any) -> None:
        self.events.append((event, facts))

    def reports(self, kind: str) -> list[dict[str, Any]]:
        return [facts for event, facts in self.events if event == "report" and facts["kind"] == kind]


class QuietHeart:
    """What the guard and the gate need of a heart."""

    def __init__(self) -> None:
        self.alive = self.in_fit = True
        self.epoch = self.live_step = self.first_step = self.steps_so_far = 0
        self.pace = Pace()
        self.train_source: Any = None
        self.journal = Told()
        self.batch_size = 0
        self.slowest = 0.0
        self.counsel = Scripted()
        self.at_ease: list[Any] = []
        self.graphs: dict[str, Any] | None = None
        self.failures: list[tuple[str, Exception]] = []
        self.phase = "train"
        self.planner: Any = None

    def failed(self, what: str, error: Exception) -> None:
        self.failures.append((what, error))

    def enter(self, phase: str) -> str:
        return self.phase

    def leave(self, phase: str) -> None: ...

    def traced(self, seconds: float) -> None: ...


@functools.cache
def guarded() -> tuple[QuietHeart, Any]:
    """Keras with the guard installed, once a process."""
    import keras
    import tensorflow

    from keepfit.agent.hooks import wrap
    from keepfit.agent.keras import guard
    from keepfit.agent.tensorflow import phases

    heart = QuietHeart()
    missing: list[str] = []
    tracing = phases.import_module("tensorflow.python.eager.polymorphic_function.tracing_compilation")
    wrap(tracing, "_create_concrete_function", phases._tracing(heart), missing)
    made = guard.install("keras.src.", heart, missing)
    assert not missing and tensorflow and keras
    return heart, made


@functools.cache
def gated() -> tuple[QuietHeart, Any]:
    """And the gate, from now on."""
    from keepfit.agent.keras import gate

    heart, made = guarded()
    missing: list[str] = []
    made.gate = gate.install("keras.src.", missing)
    made.numbers = watching(heart, made)
    assert not missing
    return heart, made


def watching(heart: QuietHeart, made: Any) -> Any:
    """A fresh look at the numbers, with nothing told yet."""
    from keepfit.agent.keras import numbers

    found = numbers.Numbers(heart, made.gate, made, None, "keras.src.", {})
    made.gate.handed = found.handed
    return found


@dataclass
class Result:
    """What came of one training."""

    weights: dict[str, Any]
    optimizer: dict[str, Any]
    history: dict[str, list[float]]
    model: Any = None
    arguments: dict[str, Any] = field(default_factory=dict)


class Trained:
    """One model, to be trained again and again from the same start."""

    def __init__(self, case: Any, rows: int = 0, trials: tuple[int, ...] = ()) -> None:
        """`case()` gives (model, fit arguments). `rows` 0: whole."""
        import keras

        self.heart, self.guard = guarded()
        self.counsel = self.heart.counsel = self.guard.counsel = Scripted()
        self.counsel.rows, self.counsel.trials = rows, list(trials)
        self.heart.failures.clear()
        keras.backend.clear_session()
        keras.utils.set_random_seed(7)
        self.model, self.arguments = case()
        self._sized = {} if _is_dataset(self.arguments["x"]) else {"batch_size": BATCH}
        self._start: list[Any] | None = None
        self.counsel.when_ready = self._remember_start

    def fit(self, epochs: int = 2) -> Result:
        history = self.model.fit(**self.arguments, **self._sized, epochs=epochs, shuffle=False, verbose=0).history
        assert not self.heart.failures, self.heart.failures
        return Result(_numbers(self.model.variables), _numbers(self.model.optimizer.variables), history, self.model)

    def fit_again(self, rows: int, epochs: int = 2) -> Result:
        """From the start once more, in micro-batches of so many rows: no new trace."""
        variables = [*self.model.variables, *self.model.optimizer.variables]
        assert self._start is not None
        for variable, value in zip(variables, self._start, strict=True):
            variable.assign(value)
        split = self.guard.split_of(self.model, "train")
        assert split is not None
        split.micro.assign(rows)
        return self.fit(epochs)

    def _remember_start(self) -> None:
        self._start = [variable.numpy() for variable in (*self.model.variables, *self.model.optimizer.variables)]

    def evaluate(self) -> list[float]:
        import numpy as np

        arguments = {k: v for k, v in self.arguments.items() if k in ("x", "y", "sample_weight")}
        return np.atleast_1d(self.model.evaluate(**arguments, **self._sized, verbose=0)).tolist()

    def predict(self) -> Any:
        return self.model.predict(self.arguments["x"], verbose=0, **self._sized)


def _numbers(variables: Any) -> dict[str, Any]:
    import numpy as np

    return {f"{i} {v.path}": np.array(v.numpy()) for i, v in enumerate(variables)}


def _is_dataset(x: Any) -> bool:
    import keras
    import tensorflow as tf

    return isinstance(x, (tf.data.Dataset, keras.utils.PyDataset))


def largest_difference(a: dict[str, Any], b: dict[str, Any]) -> tuple[float, str]:
    """Relative to the largest number of each entry; seeds are not compared (dropout draws otherwise)."""
    import numpy as np

    worst, where = 0.0, ""
    for name, value in a.items():
        if "seed" in name:
            continue
        one, other = np.asarray(value, "float64"), np.asarray(b[name], "float64")
        scale = max(1e-6, float(np.max(np.abs(one), initial=0.0)))
        difference = float(np.max(np.abs(one - other), initial=0.0)) / scale
        if not difference <= worst:
            worst, where = difference, name
    return worst, where
