"""What a step will need, and what to do about it: pure functions from measurements to choices.

micro_batch  how many rows are computed at once     forecast  what a training will need
largest      the largest batch that fits            options   what would make it need less
pool         TensorFlow's pool, played through      whole     all of it, as the contract has it
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """The room is also the function of that name: `keepfit.plan(model, …)`."""

    def __call__(self, model: Any, *args: Any, **kwargs: Any) -> Any:
        from ..forecasts import plan

        return plan(model, *args, **kwargs)


sys.modules[__name__].__class__ = _Room
