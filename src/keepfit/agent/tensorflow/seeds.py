"""A shuffle without a seed gets a private one, the same in every attempt, so that its order can be drawn again."""

import random
import sys
from importlib import import_module

from ..hooks import wrap


def install(seed, missing):
    module = sys.modules.get("tensorflow.python.data.util.random_seed")
    if module is None:
        missing.append("tensorflow.python.data.util.random_seed")
        return
    private = random.Random(seed)

    def around(original):
        def get_seed(seed):
            if seed is None and not _seeded():
                constant = sys.modules["tensorflow"].constant
                drawn = [private.getrandbits(62) + 1 for _ in range(2)]
                return tuple(constant(number, "int64") for number in drawn)
            return original(seed)

        return get_seed

    wrap(module, "get_seed", around, missing)


def _seeded():
    """Whether the script has set a seed for everything. (Asking TensorFlow for one would draw it.)"""
    context = import_module("tensorflow.python.eager.context")
    ops = import_module("tensorflow.python.framework.ops")
    seed = context.global_seed() if context.executing_eagerly() else ops.get_default_graph().seed
    return seed is not None
