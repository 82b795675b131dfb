"""The batches of a `fit`, so that a later process can go on with the very next one.

Keras draws them through an epoch iterator; its generator of steps is wrapped, so that a resumed epoch begins at
its batch. Where the position cannot be saved, the batches before it are drawn once more and dropped.
"""

import warnings
from importlib import import_module

from ..tensorflow import position
from ..tensorflow.position import JUMP, REPLAY


class Pipeline:
    """One source of batches: that of the training, or that of its validation."""

    def __init__(self, role, room, lost):
        """`room(bytes)`: whether so much memory is free; `lost(error)`: told where a position was not found again."""
        self.role = role
        self._room = room
        self._lost = lost
        self.begun = 0  # epochs, or validations
        self._saver = None
        self._iterator = None  # the one in use
        self.pending = None  # (place, iterator's state) to go on from, until it was reached
        self._pending_start = None  # and the state that its epoch had begun with
        self._before_step = None
        self._known = None  # (where, state) that was taken last; between two turns it does not change

    # --- while training -----------------------------------------------------------------------------

    def steps(self, original, owner):
        """Keras' own steps of one epoch, from where the training is to go on."""
        pending, self.pending = self.pending, None
        if pending is not None:
            yield from self._resumed(original, owner, *pending)
        else:
            self.begun += 1
            yield from self._noted(original, owner)

    def _noted(self, original, owner):
        steps = original(owner)
        for begin, end, iterator in steps:
            self._begin(owner, iterator)
            yield begin, end, iterator
            break
        yield from steps

    def _begin(self, owner, iterator):
        if iterator is self._iterator:  # with steps_per_epoch it may be one and the same for all epochs
            return
        self._iterator = iterator
        try:
            self._saver_of(owner).begin(iterator)
        except Exception as error:
            self._lost(error)

    def _saver_of(self, owner):
        if self._saver is None:
            adapter = owner.data_adapter
            arrays = type(adapter).__name__ == "ArrayDataAdapter" and adapter._shuffle != "batch"
            self._saver = position.Saver(owner._distributed_dataset, ordered_once=arrays)
        return self._saver

    @property
    def start(self):
        """The state that the epoch's iterator began with, where the seeds of the next are in it alone."""
        if self.pending is not None:
            return self._pending_start
        return self._saver.start if self._saver is not None and self._saver.how == JUMP else None

    @property
    def buffered(self):
        """Bytes that the state of its iterator takes."""
        return self._saver.bytes if self._saver is not None else 0

    @property
    def cannot_do_without(self):
        """Bytes that must be free for its position to be saved."""
        return self._saver.cannot_do_without if self._saver is not None else 0

    def repeats(self, owner):
        """Whether every turn brings the same batches, whatever was before: arrays in their own order."""
        return self.role == "test" and type(owner.data_adapter).__name__ == "ArrayDataAdapter"

    def place(self, owner, batch, between):
        """(what the manifest says of the position, the iterator's state or None)."""
        if self.pending is not None:  # not reached yet: it is where it was
            return self.pending
        saver = self._saver_of(owner)
        iterator = self._iterator
        if between and owner._current_iterator is not None:
            iterator = owner._current_iterator
        key = (self.role, self.begun, id(iterator)) if between else None
        if key is None or self._known is None or self._known[0] != key:
            self._known = key, saver.take(iterator, self._room) if iterator is not None else None
        state = self._known[1]
        known = {
            "how": saver.how or REPLAY,
            "batch": batch,
            "epochs": self.begun if between else self.begun - 1,  # gone through, to their end
            "between": between,
            "seen": int(owner._steps_seen),
            "num_batches": None if owner._num_batches is None else int(owner._num_batches),
            "current": owner._current_iterator is not None,
        }
        return known, state

    # --- going on -----------------------------------------------------------------------------------

    def go_on(self, place, state, start=None, before_step=None):
        """The next steps begin at `place`. `before_step(epoch)` is told of every epoch that was drawn again."""
        self.pending = place, state
        self._pending_start = start
        self._before_step = before_step

    def settle(self, original, owner):
        """Nothing more is trained from it here; what comes after is to find it moved on all the same."""
        (place, state), self.pending = self.pending, None
        if place["how"] == JUMP:
            if state is not None:
                self._restore(owner, iter(owner._get_iterator()), state)
        else:
            self._draw_epochs(original, owner, place["epochs"])

    def _resumed(self, original, owner, place, state):
        self.begun = place["epochs"] + 1
        if place["how"] == JUMP:
            yield from self._jumped(original, owner, place, state)
        else:
            yield from self._replayed(original, owner, place)

    def _jumped(self, original, owner, place, state):
        if self.role == "test":  # every validation begins anew; only the seeds of its shuffles go on
            self._restore(owner, iter(owner._get_iterator()), state)
            yield from self._noted(original, owner)
            return
        owner._num_batches = place["num_batches"]
        if place["between"]:
            iterator = iter(owner._get_iterator())
            self._restore(owner, iterator, state)
            owner._current_iterator = iterator if place["current"] else None
            owner._steps_seen = place["seen"]
            yield from self._noted(original, owner)
            return
        if owner.steps_per_epoch is not None:  # one iterator for all epochs: Keras goes on with it
            owner._current_iterator = iter(owner._get_iterator())
            owner._steps_seen = place["seen"] - place["batch"]
        restored = None
        for begin, end, iterator in original(owner):
            if restored is None:
                self._iterator, restored = iterator, self._restore(owner, iterator, state)
            if begin >= place["batch"]:
                yield begin, end, iterator
            elif not restored and not draw(iterator, end + 1 - begin):
                return

    def _restore(self, owner, iterator, state):
        """Whether it stands where it was. If not, the epoch goes on all the same, past as many batches."""
        try:
            position.restore(iterator, state)
            position.reseed(owner._get_iterator(), self._pending_start)
            self._saver_of(owner).start = self._pending_start
            return True
        except Exception as error:
            self._lost(error)
            return False

    def _replayed(self, original, owner, place):
        self._draw_epochs(original, owner, place["epochs"])
        if place["between"]:
            yield from self._noted(original, owner)
            return
        for begin, end, iterator in original(owner):
            self._iterator = iterator
            if begin >= place["batch"]:
                yield begin, end, iterator
            elif not draw(iterator, end + 1 - begin):
                return

    def _draw_epochs(self, original, owner, count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # data that ran out, as it did before
            for epoch in range(count):
                draw_epoch(original, owner)
                if self.role == "test":
                    owner.reset()  # as Keras does before every validation
                if self._before_step is not None:
                    self._before_step(epoch)


def draw_epoch(original, owner):
    """One epoch's batches, taken and dropped."""
    with owner.catch_stop_iteration():
        for begin, end, iterator in original(owner):
            if not draw(iterator, end + 1 - begin):
                raise StopIteration


def validation_batches(source, model, arguments):
    """The epoch iterator that a `fit` with such arguments makes for its validation."""
    utils = import_module(source + "trainers.data_adapters.data_adapter_utils")
    x, y, weight = utils.unpack_x_y_sample_weight(arguments["validation_data"])
    return import_module(source + "backend.tensorflow.trainer").TFEpochIterator(
        x=x,
        y=y,
        sample_weight=weight,
        batch_size=arguments.get("validation_batch_size") or arguments.get("batch_size"),
        distribute_strategy=model.distribute_strategy,
        steps_per_execution=model.steps_per_execution,
        steps_per_epoch=arguments.get("validation_steps"),
        shuffle=False,
    )


def draw(iterator, count):
    """How many there were: the last steps of an epoch may find fewer."""
    for drawn in range(count):
        try:
            next(iterator)
        except StopIteration:
            return drawn
    return count
