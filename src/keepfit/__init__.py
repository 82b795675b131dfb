"""keepfit keeps ``model.fit`` alive: it records, prevents, recovers and explains."""

from ._version import __version__ as __version__
