"""Legacy Keras: phases, epochs and steps, by the same hooks as Keras 3. Its batches are not split, and that is said."""

import functools
from importlib import import_module

from ..hooks import wrap
from ..keras import moments, planning
from ..keras.phases import loop_around


def install(tf_keras, heart):
    """Returns the names of what this version does not have."""
    missing = []
    moments.install(import_module("tf_keras.src.callbacks").CallbackList, heart, missing)
    model = import_module("tf_keras.src.engine.training").Model
    for name in ("fit", "evaluate", "predict"):
        wrap(model, name, functools.partial(loop_around, heart), missing, entered=True)
    version = tf_keras.__version__
    refusal = planning.refusing(heart, f"Keras 3 was expected; this is legacy Keras {version}")
    wrap(model, "fit", refusal if planning.is_wanted() else _announcing(heart, version), missing, entered=True)
    return missing


def _announcing(heart, version):
    told = []

    def around(original):
        def fit(self, *args, **kwargs):
            if not told and heart.counsel.limit:
                told.append(True)
                heart.counsel.ask("legacy", version=version)
            return original(self, *args, **kwargs)

        return fit

    return around
