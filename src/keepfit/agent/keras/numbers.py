"""After a step that was not finite: who made it, what is done about it, and what is told.

The gate has passed the update by already. What is left is between two steps, in Python: the culprit is looked for,
the batch goes into the record, and where one such step follows the other the training goes back to a good state.
"""

import collections
import math
import resource
import time
import weakref

from ...blackbox import states
from ..packing import Unpackable, pack
from ..tensorflow import parts, snapshot, variables
from ..tensorflow.parts import tf
from .blame import Blame
from .locate import keeps_order, locate
from .watched import data_of

IN_A_ROW = 10  # skipped steps after which the training goes back to a saved state
RETURNS = 3  # so often, before it is ended
CUT = 0.5  # of the learning rate, at every return
EFFORT = 10.0  # seconds that may go into finding culprits, and one per cent of the time
HELD = 4  # batches that wait to be looked at
PARTS = 4  # in which a batch is run again where memory is bounded: without the graph's thrift it takes more
TOLD = 20  # steps that are told one by one; from then on at every doubling
SKIP, ROLLBACK, STOP = "skip", "rollback", "stop"
ENDED = "ended"  # by a callback of the script's, which saw the batch as it was


class Numbers:
    def __init__(self, heart, gate, guard, keeper, source, orders):
        self._heart, self._gate, self._guard, self._keeper = heart, gate, guard, keeper
        self._source = source
        self._policy = orders.get("on_nan") or SKIP
        self._hidden = bool(orders.get("hidden"))  # the user has said so: then no callback sees a batch that was bad
        self._untold = None  # what is watched, and the logs of such a batch, which the program is still to be told
        self.ended_by = None  # what a callback did on seeing one: "stop_training", or the type it raised
        self._aside = False
        self._keep = int(orders.get("keep") or 0)
        self._vault = states.Vault(orders["batches"]) if self._keep and orders.get("batches") else None
        self._known = set()  # samples that were told
        self._source_seen = None  # weak reference to the data that they are samples of
        self._found = {}  # the culprit of the last step whose was looked for
        self._waiting = collections.deque(maxlen=64)
        self._began, self._spent = time.monotonic(), 0.0
        self._epochs = {}  # id of what is watched -> its count when the epoch began
        self._bad = {}  # id of what is watched -> steps that were not applied
        self._bad_before = {}  # and how many of them when the epoch began
        self._last, self._row = 0, 0  # number of the last one, and how many in a row
        self._returns = 0
        self._returned_at = 0
        self._passed_by = 0

    def handed(self, watched, batch):
        """A step that was not finite. From within it, in a thread of TensorFlow's: only noted."""
        if len(self._waiting) >= HELD:  # counted, but not held on to
            batch = batch._replace(data=(None, ()))
        place = (self._heart.epoch, self._heart.live_step) if self._heart.in_fit else (None, None)
        if watched.step == "train" and self._untold is None:
            self._untold = watched, batch.logs
        self._waiting.append((watched, batch, *place))
        self._heart.pace.busy, self._heart.pace.due = True, 0.0

    def epoch_begins(self, model):
        """So that a step's number tells its place in the epoch."""
        self._untold = None
        owner = self._heart.train_source
        if owner is not None and (self._source_seen is None or self._source_seen() is not owner):
            self._source_seen = weakref.ref(owner)
            self._known.clear()  # a sample of other data is another sample
        watched = self._gate.watched(model)
        if watched is not None:
            self._epochs[id(watched)] = int(watched.count.numpy())
            self._bad_before[id(watched)] = self._bad.get(id(watched), 0)

    def nothing_applied(self, model):
        """Whether every step of the epoch so far was passed by: then there is no loss to speak of."""
        watched = self._gate.watched(model)
        began = self._epochs.get(id(watched)) if watched is not None else None
        if began is None or not self._bad.get(id(watched)):
            return False
        steps = int(watched.count.numpy()) - began
        return 0 < steps <= self._bad[id(watched)] - self._bad_before.get(id(watched), 0)

    def untold(self, model):
        """The logs of a batch of this model's that was not finite, once; None where there was none."""
        (watched, logs), self._untold = self._untold or (None, None), None
        return logs if watched is not None and watched.model() is model else None

    def not_gated(self, devices):
        """A training on several devices: none of its numbers is looked at."""
        if not self._aside:
            self._aside = True
            self._report("aside", devices=devices)

    def look(self):
        while self._waiting:
            self._judge(*self._waiting.popleft())
        self.ended_by = None  # what trains next is another matter
        passed = self._gate.passed_by
        if passed is not None and (count := int(passed.numpy())) > self._passed_by:
            self._passed_by = count
            if self._is_told(count):
                self._report("loop", count=count)

    # --- one step -----------------------------------------------------------------------------------------

    def _judge(self, watched, batch, epoch, live):
        model = watched.model()
        if model is None:
            return
        trains = watched.step == "train"
        if trains:
            self._bad[id(watched)] = bad = self._bad.get(id(watched), 0) + 1
            self._row = self._row + 1 if batch.number == self._last + 1 else 1
            self._last = batch.number
        facts = {"step": watched.step, "epoch": epoch, "batch": self._place(watched, model, batch, live)}
        facts["unseen"] = [name for name, value in zip(watched.names, batch.squares) if not math.isfinite(value)][:8]
        if trains:
            losses, norms = watched.recent()
            facts.update(loss_grew=_growth(losses), norm_grew=_growth(norms))
        facts["loss"] = batch.loss if math.isfinite(batch.loss) else None
        told = not trains or self._is_told(bad)
        if told:
            self._found = self._culprit(watched, model, batch)
            facts.update(self._found)
            facts["elements"] = self._elements(watched, facts)
        elif self._row > 1:
            facts.update(self._found)  # one of many in a row: of the last that was looked at
        if trains:
            facts.update(count=bad, did=self._act(model, watched, epoch is not None), row=self._row)
            if facts["did"] == ENDED:
                facts["ended_by"] = self.ended_by
            if self._hidden:
                facts["hidden"] = self._policy
            facts["steps"] = self._heart.steps_so_far
        again = facts.pop("again", False)  # the same sample in a later epoch
        if (told and not again) or facts.get("did") not in (None, SKIP) or self._policy == ROLLBACK:
            self._report("poison", **facts)

    def _is_told(self, count):
        return count <= TOLD or count & (count - 1) == 0

    def _place(self, watched, model, batch, live):
        """Which batch of the epoch it was, from 0."""
        began = self._epochs.get(id(watched))
        if watched.step != "train" or live is None:
            return None
        if model.steps_per_execution == 1 or began is None:
            return live
        return self._heart.first_step + batch.number - 1 - began

    def _culprit(self, watched, model, batch):
        data = data_of(batch)
        if data is None or self._spent > EFFORT + 0.01 * (time.monotonic() - self._began):
            return {"phase": "unknown"}
        before = self._heart.enter("checkpoint")  # what takes long here is no slow step
        began = time.monotonic()
        split = self._guard.split_of(model, watched.step)
        at_once = -(-int(parts.rows_of(data)) // PARTS) if self._is_tight() else 0
        at_once = int(split.micro.numpy()) if split is not None else at_once
        try:
            with self._guard.whole():
                found = Blame(self._gate, model, self._source, at_once, watched.step).find(data)
            found["samples"] = self._samples(model, watched, data, found)
            found["again"] = self._is_known(watched, found)
            if watched.step == "train" and not found["again"]:
                found["saved"] = self._save(model, data, found)
        except Exception as error:
            self._heart.failed("numbers.blame", error)
            found = {"phase": "unknown"}
        finally:
            self._spent += time.monotonic() - began
            self._heart.leave(before)
            self._heart.pace.last = time.monotonic()
        return found

    def _is_tight(self):
        """Whether twice what the training has needed at its peak would come near the limit."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return bool(self._heart.counsel.limit) and 2 * peak > self._heart.counsel.limit

    def _is_known(self, watched, found):
        key = (watched.step, found["phase"], found["layer"], found["op"], str(found["samples"]))
        known = bool(found["samples"]) and key in self._known
        self._known.add(key)
        return known

    def _samples(self, model, watched, data, found):
        if found["every"] or not found["rows"]:
            return []
        owner = self._heart.train_source if watched.step == "train" else getattr(model, "_eval_epoch_iterator", None)
        x = data[0] if isinstance(data, tuple) else data
        try:
            known = locate(owner, x, found["rows"])
        except Exception as error:
            self._heart.failed("numbers.locate", error)
            return []
        return [known[row] for row in found["rows"] if row in known]

    def _elements(self, watched, facts):
        """Where no array holds them: which elements of the dataset the rows are, if it keeps its order."""
        place, rows = facts["batch"], facts.get("rows") or []
        if facts.get("samples") or facts.get("every") or place is None or not keeps_order(self._heart.train_source):
            return []
        return [place * self._heart.batch_size + row for row in rows] if self._heart.batch_size else []

    def _save(self, model, data, found):
        """The batch, and the weights it met, beside the record; only the culprits where all of it is too large."""
        if self._vault is None or len(self._vault.generations()) >= TOLD:
            return None
        beside, named = snapshot.Beside(), snapshot.forward_state(model)
        if any(not variables.holdable(leaf.dtype) for leaf in parts.leaves(data)):
            return None  # strings
        try:
            packed = pack(tf().nest.map_structure(lambda leaf: leaf.numpy(), data), beside.keep)
        except (Unpackable, AttributeError):  # sparse
            return None
        size = sum(array.nbytes for array in beside.arrays.values())
        if size > self._keep:
            if not found["rows"] or found["every"] or len(found["rows"]) == int(parts.rows_of(data)):
                return None
            rows = found["rows"]
            picked = tf().nest.map_structure(lambda leaf: tf().gather(leaf, rows), data)
            return self._save(model, picked, {**found, "rows": list(range(len(rows)))})
        number = states.next_number(self._vault)
        fit = self._keeper.number_of(model) if self._keeper is not None else 1
        manifest = states.Manifest(
            number=number, fit=fit, kind="batch", written=time.time(), state={"batch": packed, "found": found}
        )
        taken = snapshot.Snapshot(manifest, named, beside, {})
        if taken.left_out or taken.bytes > self._keep:  # the weights are too much: the batch alone
            taken = snapshot.Snapshot(manifest, [], beside, {})
        taken.write(self._vault.draft(number, taken.bytes + size))
        return number

    # --- what is done -------------------------------------------------------------------------------------

    def _act(self, model, watched, in_fit):
        """In a word: skip, rollback, stop, or that the script itself has ended it."""
        if self.ended_by is not None:
            return ENDED
        if self._row > 1 and self._keeper is not None:
            self._keeper.rest()  # no state is worth keeping now
        if self._policy == STOP:
            model.stop_training = True
            return STOP if in_fit else SKIP  # a loop around `train_on_batch` is the script's own
        if self._policy == SKIP and (self._row % IN_A_ROW or not self._row):
            return SKIP
        if self._last - self._returned_at > 10 * IN_A_ROW:
            self._returns = 0  # it went well for a while
        self._returned_at = self._last
        if self._returns < RETURNS and self._keeper is not None:
            self._returns += 1
            if (place := self._keeper.roll_back(model, self._returns)) is not None:
                rate = _cut(model.optimizer, CUT**self._returns)
                self._report("rollback", to=place, rate=rate, row=self._row)
                return ROLLBACK
        if self._row >= IN_A_ROW * (RETURNS + 1):
            model.stop_training = True
            return STOP
        return SKIP

    def _report(self, kind, **facts):
        if self._heart.journal is not None:
            self._heart.journal.write("report", kind=f"numbers-{kind}", **facts)


def _growth(values):
    """The last finite value, as a multiple of the least before it; 0 where there is none."""
    finite = [abs(float(value)) for value in values if math.isfinite(value)]
    return finite[-1] / max(min(finite), 1e-30) if finite else 0.0


def _cut(optimizer, factor):
    """The learning rate after it was cut; None where a schedule says what it is."""
    rate = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_learning_rate", None)
    if not hasattr(rate, "assign"):
        return None
    rate.assign(rate * factor)
    return float(rate.numpy())
