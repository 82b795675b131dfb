# keepfit's way into the trainee's interpreter. This folder stands first on PYTHONPATH, so Python imports
# this file as `sitecustomize`; it starts the agent, takes itself off the path, and lets the environment's
# own `sitecustomize`, if there is one, run as if this had never been here.
#
# It must parse on every interpreter it may meet, old ones too: no annotations, no f-strings.
import os
import sys


def _start():
    record = os.environ.get("KEEPFIT_RECORD")
    if not record or os.environ.get("KEEPFIT_DISABLE") == "1" or sys.version_info < (3, 8):
        return
    import importlib
    import types

    # A package that exists only here: it leads to keepfit's own folder without putting anything on
    # sys.path, and without running keepfit/__init__.py.
    package = types.ModuleType("_keepfit")
    package.__path__ = [os.path.dirname(os.path.dirname(_here))]
    sys.modules["_keepfit"] = package
    importlib.import_module("_keepfit.agent.entry").start(record)


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _here]
try:
    _start()
except Exception:  # whatever fails in keepfit, the training goes on
    sys.modules.pop("_keepfit", None)

# Chain. When there is no other sitecustomize this raises the same ImportError that `site` expects and
# swallows when there is none; when there is one, it stands in sys.modules under its own name.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402,F401
