"""``python -m keepfit`` is ``keepfit``."""

from .cli import main

raise SystemExit(main())
