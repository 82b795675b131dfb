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
    # Executed, not imported: what is imported shows in `sys.modules`, and in what -X importtime prints.
    path = os.path.join(os.path.dirname(_here), "dormant.py")
    loader = sys.modules["_frozen_importlib_external"].SourceFileLoader("_keepfit.agent.dormant", path)
    code = loader.get_code(loader.name)
    # Python knows the frames of its import machinery by their file, and leaves them out of tracebacks. What waits
    # for imports belongs to it.
    sys.modules["_imp"]._fix_co_filename(code, "<frozen importlib._bootstrap>")
    names = {"__name__": loader.name, "__file__": path}
    exec(code, names)
    names["start"](record)


_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if entry != _here]
sys.path_importer_cache.pop(_here, None)
try:
    _start()
except Exception:  # whatever fails in keepfit, the training goes on
    sys.modules.pop("_keepfit", None)

# Chain. When there is no other sitecustomize this raises the same ImportError that `site` expects and
# swallows when there is none; when there is one, it stands in sys.modules under its own name.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402,F401
