"""Never lose a batch: states of an unmodified `fit` are saved between two steps, and a re-run goes on from the newest.

The n-th `fit` of a script is the n-th of its re-run. One that had finished is not trained again: it returns its
recorded History, with weights, callbacks and random generators as they were at its end. The one that was cut
off goes on at its very next batch.
"""

import inspect
import threading
from importlib import import_module

from .. import randomness
from ..hooks import wrap
from ..packing import unpack
from ..parting import Parting
from ..tensorflow.keeping import keeping_of
from ..tensorflow.position import NoRoom
from ..tensorflow.snapshot import Reader, has_room
from . import callbacks as callback_states
from .pipeline import validation_batches
from .session import Session


def install(source, heart, missing):
    keeping = keeping_of(heart)
    if keeping is None:
        return None
    keeper = Keeper(source, heart, keeping)
    trainer = import_module(source + "backend.tensorflow.trainer")
    iterators = import_module(source + "trainers.epoch_iterator").EpochIterator
    lists = import_module(source + "callbacks.callback_list").CallbackList
    wrap(trainer.TFEpochIterator, "__init__", keeper.iterating, missing)
    wrap(iterators, "_enumerate_iterator", keeper.enumerating, missing)
    wrap(import_module(source + "trainers.trainer").Trainer, "_get_metrics_result_or_logs", keeper.telling, missing)
    for name in ("on_train_begin", "on_epoch_begin", "on_epoch_end"):
        wrap(lists, name, getattr(keeper, name), missing)
    heart.at_ease.append(keeper.look)
    return keeper


class Keeper:
    """What is saved of this process, and what it goes on from."""

    def __init__(self, source, heart, keeping):
        self.heart = heart
        self.source = source
        self._keeping = keeping
        self._parting = Parting(self._hurry)
        self._session = None
        self._thread = None
        self._owed = []  # (source, session) of skipped trainings whose batches were not drawn again
        self.guard = None
        self.enumerate = None
        self.steps_at_start = 0

    # --- fit ------------------------------------------------------------------------------------------

    def fitting(self, original):
        """Around `fit`."""
        signature = inspect.signature(original)

        def fit(model, *args, **kwargs):
            if not self._may_keep(model):
                return original(model, *args, **kwargs)
            try:
                bound = signature.bind(model, *args, **kwargs)
            except TypeError:  # the user's mistake: Keras says so
                return original(model, *args, **kwargs)
            bound.apply_defaults()
            self._pay(bound.arguments.get("x"))
            number = self._keeping.begin()
            self._session = session = Session(self, model, number, bound.arguments)
            self._thread = threading.get_ident()
            self.steps_at_start = self.heart.steps
            try:
                if (end := self._keeping.end_of(number)) is not None:
                    history = self._skip(session, end, original, bound)
                    if history is not None:
                        return history
                    self._session = session = Session(self, model, number, bound.arguments)
                else:
                    session.saved = self._keeping.cut_of(number)
                with self._parting:
                    history = original(model, *args, **kwargs)
                self._finished(session)
                return history
            finally:
                self._session = None
                session.close()

        return fit

    def _may_keep(self, model):
        if not self.heart.alive:
            return False  # a forked worker: what it trains is its own
        if self._session is not None:
            if self._thread != threading.get_ident():
                self._keeping.not_kept("two trainings at once in one process: only the first is saved")
            return False
        strategy = getattr(model, "_distribute_strategy", None)
        if strategy is not None and strategy.num_replicas_in_sync > 1:
            self._keeping.not_kept("a training on several devices is not saved yet")
            return False
        return True

    def _finished(self, session):
        try:
            session.settle()
            if not self._keeping.waits:
                self._keeping.saving.end(session, self.heart.epoch + 1)
        except Exception as error:
            self.heart.failed("keeper.end", error)

    def _skip(self, session, end, original, bound):
        """A `fit` that had finished: nothing is trained, and all is as it was at its end. None: it was another."""
        session.saved = end
        given = dict(bound.arguments)
        user = given.get("callbacks")
        bound.arguments.update(callbacks=None, verbose=0, epochs=0, initial_epoch=0, validation_data=None)
        try:
            history = original(*bound.args, **bound.kwargs)
        finally:
            bound.arguments.update(given)
        if session.saved is None:
            session.close()
            return None
        if session.move_data_on():
            self._owed.append((bound.arguments.get("x"), session))
        saved = end[1].state["callbacks"]
        listed = import_module(self.source + "callbacks.callback_list").CallbackList
        if isinstance(user, listed):
            told = user
        else:
            told = listed(user, add_history=True, add_progbar=False, model=session.model, epochs=0)
        callback_states.put(told.callbacks, saved, session.fetch)
        session.model.stop_training = end[1].state["stop"]
        randomness.put(unpack(end[1].state["random"], session.fetch))
        self._keeping.note("resumed", fit=session.number, skipped=True)
        return told._history or history

    def _pay(self, source):
        """A generator that a skipped `fit` had read from goes on where that left it, if it is used again."""
        for owed in [owed for owed in self._owed if owed[0] is source]:
            self._owed.remove(owed)
            host = randomness.take_host()
            try:
                owed[1].settle()
            except Exception as error:
                self.heart.failed("keeper.pay", error)
            randomness.put_host(host)

    # --- hooks ----------------------------------------------------------------------------------------

    def _here(self):
        """The session, where this is its own thread."""
        session = self._session
        return session if session is not None and self._thread == threading.get_ident() else None

    def iterating(self, original):
        def __init__(iterator, *args, **kwargs):
            original(iterator, *args, **kwargs)
            session = self._here()
            if session is not None and session.owner is None:
                session.owner = iterator

        return __init__

    def enumerating(self, original):
        self.enumerate = original

        def _enumerate_iterator(iterator):
            session = self._here()
            role = session.role_of(iterator) if session is not None else None
            return original(iterator) if role is None else role.steps(original, iterator)

        return _enumerate_iterator

    def telling(self, original):
        def _get_metrics_result_or_logs(model, logs):
            session = self._here()
            if session is not None and session.model is model and session.last_logs:
                # The epoch's last batch may have been trained before the process that began it died.
                logs, session.last_logs = logs or session.last_logs, None
            return original(model, logs)

        return _get_metrics_result_or_logs

    def on_train_begin(self, original):
        def begin(callbacks, logs=None):
            session = self._here()
            if session is None or session.list is not None:
                return original(callbacks, logs)
            session.list = callbacks
            if session.saved is None:
                original(callbacks, logs)
                self._begin(session)
                return None
            try:
                difference = session.difference()
            except Exception as error:
                difference = f"the saved state could not be read ({type(error).__name__}: {error})"
            if difference is not None and not (self._keeping.forced and session.is_readable):
                session.saved = None
                self._keeping.refuse(session.number, difference)
                return original(callbacks, logs)
            manifest = session.saved[1]
            if manifest.kind == "step":
                callback_states.before_begin(callbacks.callbacks, manifest.state["callbacks"])
            original(callbacks, logs)
            session.put()
            if manifest.kind == "step":
                session.go_on()
                self._begin(session)
            return None

        return begin

    def on_epoch_begin(self, original):
        def begin(callbacks, epoch, logs=None):
            original(callbacks, epoch, logs)
            session = self._here()
            if session is not None and session.list is callbacks and session.going_on:
                session.going_on = False
                if session.saved[1].batch:  # between two epochs nothing of this one had happened
                    session.put()
                manifest = session.saved[1]
                self._keeping.note("resumed", fit=session.number, epoch=manifest.epoch, batch=manifest.batch,
                              generation=manifest.number)  # fmt: skip

        return begin

    def on_epoch_end(self, original):
        def end(callbacks, epoch, logs=None):
            original(callbacks, epoch, logs)
            session = self._here()
            if session is not None and session.list is callbacks:
                self._look(session, epoch + 1, 0, between=True)

        return end

    # --- between two steps ----------------------------------------------------------------------------

    def _begin(self, session):
        self._keeping.saving.begin()
        try:
            forgetful = callback_states.forgetful(session.list.callbacks)
        except Exception as error:
            self.heart.failed("keeper.callbacks", error)
            return
        self.name_forgetful(forgetful)

    def name_forgetful(self, names):
        if names:
            self._keeping.report("callbacks", names=sorted(set(names)))

    def look(self):
        """Now and then, between two steps."""
        session, heart = self._here(), self.heart
        if session is not None and session.list is not None and heart.callbacks is session.list:
            session.logs = heart.logs
            self._look(session, heart.epoch, heart.step + 1)

    def _look(self, session, epoch, batch, between=False):
        """A state, if it is time for one; whatever fails, the training goes on."""
        if session.model.stop_training or self._keeping.waits:
            return  # the end is near, and is saved; or a later training's state must not be pushed out
        wanted = self._parting.waits or self.heart.counsel.wants_state()
        try:
            self._keeping.saving.look(session, epoch, batch, between, wanted)
        except NoRoom as error:
            self._keeping.saving.rest()
            self._keeping.report("paused", why=str(error))
        except Exception as error:
            self._keeping.saving.rest()
            self.heart.failed("keeper", error)
        if wanted:
            self.heart.counsel.state_is_saved()
            self._parting.saved()

    # --- going back -----------------------------------------------------------------------------------

    def rest(self):
        self._keeping.saving.rest()

    def number_of(self, model):
        """Which training of the script this model is in."""
        return self._session.number if self._session is not None and self._session.model is model else 0

    def roll_back(self, model, back):
        """Weights and optimizer as the `back`-th newest good state has them: its place in words, or None."""
        session = self._here()
        found = self._keeping.earlier(session.number, back) if session is not None and session.model is model else None
        if found is None:
            return None
        generation, manifest = found
        reader = Reader(generation)
        try:
            reader.put([(name, v) for name, v in session.variables() if name.startswith(("model/", "optimizer/"))])
        finally:
            reader.close()
        return f"epoch {manifest.epoch + 1}, batch {manifest.batch + 1}"

    def has_room(self, size):
        return has_room(size, self.heart.counsel.limit)

    def lost_position(self, error):
        self._keeping.lost_position(error)

    # --- the rest of the agent ------------------------------------------------------------------------

    def saving(self):
        """Bytes that must be free between two steps for a state to be saved."""
        session = self._here()
        return session.train.cannot_do_without if session is not None else 0

    def rows_of(self, model):
        """Rows computed at once; 0 for the whole batch."""
        split = self.guard.split_of(model, "train") if self.guard is not None else None
        return int(split.micro.numpy()) if split is not None else 0

    def resume_rows(self, model, rows):
        if self.guard is not None:
            self.guard.resumed[model] = rows

    def make_validation(self, model, arguments):
        return validation_batches(self.source, model, arguments)

    def _hurry(self):
        """The next boundary between two steps is not to be passed by."""
        self.heart.pace.busy, self.heart.pace.due = True, 0.0
