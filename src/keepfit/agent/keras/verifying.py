"""A batch of another size, tried as if the script had asked for it: in a process of its own, which does nothing else
but go on from there to larger ones, where it is asked to.

Arrays are cut by Keras itself, so that what is on its way to the step is of that size too. Any other source makes
its batches as it likes: there the rows of one of them are repeated or left out.
"""

import os
from importlib import import_module

from . import holdings
from .decision import sizes_of
from .planning import STEPS, Planner

MORE = 12  # steps, where the training has as many: a peak still rises with them, and what is verified is to hold


def wanted():
    """The rows to try; 0: it is not what this process is for."""
    return int(os.environ.get("KEEPFIT_PLAN_ROWS") or 0)


class Verifier(Planner):
    """Stands where the planner would, and only tries."""

    def _begins(self, given):
        """Another batch size, where it goes by that."""
        self._fit = given
        if self._goes_by_size(given):
            given["batch_size"] = wanted()

    def _goes_by_size(self, given):
        arrays = import_module(self._source + "trainers.data_adapters.array_data_adapter")
        data = [given.get(name) for name in ("x", "y", "sample_weight")]
        return data[0] is not None and arrays.can_convert_arrays(data)

    def _plan(self, model, function, held):
        if held.is_tf and not model.run_eagerly:
            # Where it divides the rows there are, Keras says so in the batch's type: another size would be traced anew,
            # and a second graph be in the process.
            held.of_any_rows()
            held.trace(function)
        weights = sizes_of(model)["weights"] or None  # not built yet
        self._heart.journal.write("plan", rows=wanted(), weights=weights)
        self._try_all(model, function, held)

    def _cleared(self, trial):
        """Nothing: a size that runs behind others, with what they have left, runs without that too."""
        return 0

    def _sized(self, held, rows):
        most = max(STEPS, min(MORE, self._steps() or MORE))
        adapter, arrays = holdings.adapted(self._heart.train_source)
        if arrays is not None and adapter.batch_size == rows:
            steps = holdings.samples(self._heart.train_source, rows) // (rows * held.count)
            if steps > 1:  # the first one is not like the others
                return held.handed_on(), min(STEPS, steps), min(most, steps)
        holdings.worst(held)
        most = most if rows == wanted() else STEPS  # what runs behind others has their steps before it
        return held.sized(rows, most), STEPS, most
