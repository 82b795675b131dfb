"""The process-wide random generators: Python's, NumPy's, TensorFlow's and Keras' own, out and back in.

Only those that exist already are looked at, and nothing is ever seeded: an unseeded script stays unseeded.
"""

from __future__ import annotations

import random
import sys
from typing import Any


def take() -> dict[str, Any]:
    """The state of every global generator, as plain data and arrays."""
    return {"host": take_host(), "framework": take_framework()}


def put(state: dict[str, Any], host: bool = True) -> None:
    """As they were; `host=False` leaves Python's and NumPy's to whoever replays the data."""
    if host:
        put_host(state["host"])
    put_framework(state["framework"])


def take_host() -> dict[str, Any]:
    found: dict[str, Any] = {"python": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        found["numpy"] = numpy.random.get_state()
    return found


def put_host(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        numpy.random.set_state(state["numpy"])


def take_framework() -> dict[str, Any]:
    found: dict[str, Any] = {}
    context = _context()
    if context is not None:
        # Eager operations draw their seeds from here, once a global seed was set.
        found["seed"], rng = context._seed, getattr(context, "_rng", None)
        found["eager"] = rng.getstate() if rng is not None else None
    generator = _tf_generator()
    if generator is not None:
        found["generator"] = [generator.algorithm, generator.state.numpy()]
    keras = _keras_generator()
    if keras is not None:
        found["keras"] = keras.state.value.numpy()
    return found


def put_framework(state: dict[str, Any]) -> None:
    context = _context()
    if context is not None and state.get("eager") is not None:
        if getattr(context, "_rng", None) is None:
            context._set_global_seed(state["seed"])
        context._rng.setstate(state["eager"])
    if state.get("generator") is not None:
        algorithm, value = state["generator"]
        tf = sys.modules["tensorflow"]
        tf.random.set_global_generator(tf.random.Generator.from_state(value, algorithm))
    if state.get("keras") is not None:
        keras = _keras_generator(make=True)
        if keras is not None:
            keras.state.assign(state["keras"])


def _context() -> Any:
    module = sys.modules.get("tensorflow.python.eager.context")
    return module.context() if module is not None else None


def _tf_generator() -> Any:
    """The global one, where somebody has made it."""
    module = sys.modules.get("tensorflow.python.ops.stateful_random_ops")
    return getattr(module, "global_generator", None) if module is not None else None


def _keras_generator(make: bool = False) -> Any:
    module = sys.modules.get("keras.src.random.seed_generator")
    state = sys.modules.get("keras.src.backend.common.global_state")
    if module is None or state is None:
        return None
    if make:
        return module.global_seed_generator()
    return state.get_global_attribute("global_seed_generator")
