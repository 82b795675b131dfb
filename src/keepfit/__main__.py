"""``python -m keepfit`` is ``keepfit``: the same start, in a Python that does not hear the user's PYTHON* variables."""

import os
import sys

# As in bin/keepfit. The first argument is where keepfit is looked for, if it is not in that Python's own packages.
START = """
import site, sys
site.execsitecustomize = site.execusercustomize = lambda: None
site.main()
beside = sys.argv.pop(1)
try:
    import keepfit
except ImportError:
    site.addsitedir(beside)
from keepfit.cli import entry
entry()
"""


def _again() -> None:
    from .cli.inherited import handed_over

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = [sys.executable, "-I", "-S", "-c", START, root, *sys.argv[1:]]
    os.execve(sys.executable, command, handed_over())


_again()
