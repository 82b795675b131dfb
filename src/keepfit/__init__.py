"""keepfit keeps ``model.fit`` alive: it records, prevents, recovers and explains."""

from ._version import __version__ as __version__
from .loops import accumulate as accumulate
from .loops import guard as guard
from .loops import steps as steps
