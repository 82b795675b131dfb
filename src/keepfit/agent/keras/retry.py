"""On a device with memory of its own, running out of it can be caught: the same batch again, in smaller parts.

On the host it cannot (the failed step's memory stays held, and often the process is gone): there the
supervisor prevents, or starts again.
"""

from ..tensorflow.parts import tf
from .decision import Unchanged
from .held import HeldBatches


def is_exhaustion(error):
    """By type and status code; by the code's own name where XLA wraps the status in another."""
    errors = tf().errors
    if isinstance(error, errors.ResourceExhaustedError):
        return True
    if getattr(error, "error_code", None) == errors.RESOURCE_EXHAUSTED:
        return True
    return isinstance(error, errors.OpError) and "RESOURCE_EXHAUSTED" in str(error)


class Retrying:
    """Stands where the training function stood. One batch at a time, taken in Python, so that it can be tried again.

    The weights of a failed step are untouched: a step that XLA compiled gets its memory before it begins, and a
    split one applies gradients only after its last part.
    """

    def __init__(self, guard, model, function):
        self._guard = guard
        self._model = model
        self._function = function

    def __call__(self, iterator):
        held = HeldBatches(iterator, self._model.steps_per_execution)
        result = None
        for batch in held.listed():
            result = self._one(batch)
        held.surface()
        return result

    def _one(self, batch):
        while True:
            state = Unchanged(self._model)
            state.__enter__()
            try:
                return self._function(iter([batch]))
            except tf().errors.OpError as error:
                if not is_exhaustion(error) or not self._smaller(batch):
                    raise
                state.__exit__()

    def _smaller(self, batch):
        """Whether there is a smaller micro-batch to try; if so, it is set."""
        guard, model = self._guard, self._model
        split = guard.split_of(model, "train")
        held = HeldBatches(iter([batch]), 1)
        used = min(int(split.micro.numpy()), held.rows()) if split is not None else held.rows()
        if used <= 1:
            return False
        answer = guard.counsel.ask("exhausted", step="train", rows=used) or {}
        rows = int(answer.get("rows") or used // 2)
        if split is not None:
            split.micro.assign(rows)
            return True
        function = guard.split_now(model, self._function, held, rows)
        if function is self._function:
            return False  # it cannot be split, and that has been said
        self._function = function
        return True
