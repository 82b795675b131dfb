"""A training that is only planned: it runs up to its first step, which is looked at and tried in small.

Facts only; what they mean is the supervisor's affair, and it ends the process when it has heard enough.
"""

import inspect
import itertools
import os
import threading
import time
from importlib import import_module

from .. import lifeline, written
from ..peak import Peak, anonymous, files, give_back, malloc_settings, most
from ..tensorflow import device, liveness, parts, pool, tracing
from ..tensorflow.parts import tf
from . import holdings, outlook
from .decision import bytes_of, fingerprint, versions
from .examine import has_own
from .held import HeldBatches
from .pipeline import validation_batches

STEPS = 3  # of a trial, at least: the first one is not like the others
NOTED = 10  # steps at most, of which what they take from a pool is noted: their operations come in different orders
FORECAST = 2  # trials that a forecast is made of; those behind them look for the largest batch
UNFELT = 10.0  # seconds that the steps may take that are noted
# Seconds that the steps of a trial may take, beyond the least: large ones take seconds each, and what is to be seen is
# what the later ones bring (an encoder's 118 rows, tried for as many steps as ten seconds held, were killed in 32).
PATIENCE = 60.0


def is_wanted():
    return bool(os.environ.get("KEEPFIT_PLAN"))


def refusing(heart, why):
    """Around a training call that cannot be planned: it is not made either."""

    def around(original):
        def fit(*args, **kwargs):
            heart.counsel.ask("planned", failed=why)
            wait_to_be_ended()

        return fit

    return around


class Planner:
    """Stands at the first training call of a script, which goes no further."""

    def __init__(self, source, heart):
        self._source, self._heart = source, heart
        trainer = import_module(source + "backend.tensorflow.trainer").TensorFlowTrainer
        self._make_test = trainer.make_test_function  # as Keras has it, before anything is wrapped around it
        self._loop = None  # (optimizer, what it trains) of a hand-written step that is being traced
        self._found = False  # the training call: what is traced or run from now on is our own doing
        self._first = threading.Lock()  # taken by the thread that comes to it first
        self._fit = {}  # the arguments of the `fit` that is going on
        self._left_out = False  # it was given callbacks
        self._ready = 0  # bytes in use before the first trial that counts

    def fitting(self, original):
        """Around `fit`. What ends it before its first step is told so, and nothing of the script runs behind it."""
        signature = inspect.signature(original)

        def fit(model, *args, **kwargs):
            try:
                bound = signature.bind(model, *args, **kwargs)
                self._begins(bound.arguments)
                # They open, empty and write files before the first step, and nothing is trained that they could follow.
                self._left_out = bool(bound.arguments.get("callbacks"))
                bound.arguments.update(callbacks=None, verbose=0)
                return original(*bound.args, **bound.kwargs)
            except Exception as error:
                if self._is_first():
                    self._failed(error)
                wait_to_be_ended()

        return fit

    def _begins(self, given):
        """A `fit` with these arguments."""
        self._fit = given
        try:
            arrays = holdings.in_arrays(given)
        except Exception as error:  # whatever it was given, it is Keras that says what is wrong with it
            self._heart.failed("planning.arrays", error)
            arrays = 0
        self._heart.journal.write("fitting", in_use=anonymous(), arrays=arrays)

    def _is_first(self):
        """Of all threads and processes that the script trains in: one is planned, and ends the others with it."""
        return self._first.acquire(blocking=False) and self._heart.is_the_one()

    def take(self, model, function, held):
        """Never returns."""
        if self._is_first():
            self._found = True
            try:
                self._plan(model, function, held)
            except Exception as error:
                self._failed(error)
        wait_to_be_ended()

    def _failed(self, error):
        self._heart.failed("planning", error)
        said = f"{type(error).__name__}: {lifeline.describe(error)['message'][:300]}"
        if self._left_out:
            said += " (callbacks are not begun in a plan)"
        self._heart.counsel.ask("planned", failed=said)

    # --- loops of the user's own: what is seen of their first step is all there is ------------------------

    def applying(self, optimizer, trained, eager):
        """Gradients are about to be applied, by a step that is run as it is written or one that is being traced."""
        if self._found:
            return
        trained = list(trained)
        if not eager:
            self._loop = optimizer, trained
            return
        if not optimizer.built:
            optimizer.build(trained)
        facts = self._loop_facts(optimizer, trained)
        # The next step holds this one's gradients until it has its own, and the optimizer's state is new.
        self._tell({**facts, "seen": most() + facts["model"]["trainable"] + facts["model"]["optimizer"]})

    def traced(self, graph, graphs):
        """A function was traced, from its first line to its last."""
        if self._loop is None:
            return
        facts = self._loop_facts(*self._loop)
        rows = facts["rows"] = facts["rows"] or _rows_of(graph)
        self._tell({**facts, "static": outlook.curve(graph, graphs, rows) if rows else []})

    def second_step(self):
        """A loop that applies gradients in a way of its own has come to its second batch."""
        self._tell({**self._loop_facts(None, []), "seen": most()})

    def _loop_facts(self, optimizer, trained):
        state = sum(bytes_of(variable) for variable in getattr(optimizer, "variables", ()))
        size = sum(bytes_of(variable) for variable in trained)
        return {
            "rows": self._heart.batch_size, "before": anonymous(), "in_use": anonymous(), "files": files(),
            "model": {"weights": size, "trainable": size, "optimizer": state}, "malloc": malloc_settings(),
            "pool": device.pools(), "loop": True,
            "cut": "the loop is the script's own: its batch cannot be made smaller from outside",
            "wrote": written.kept(), "seconds": {},
        }  # fmt: skip

    def _tell(self, facts):
        try:
            if not self._is_first():
                return
            self._heart.journal.write("plan", **facts)
            self._heart.counsel.ask("planned")
        finally:
            wait_to_be_ended()

    # --- Keras' own loops -----------------------------------------------------------------------------------

    def _plan(self, model, function, held):
        before, prepared = anonymous(), most()
        held.listed()  # its buffers are filled before the first batch comes; data that fails says so itself
        if model.run_eagerly and not getattr(model.optimizer, "built", True) and model.trainable_variables:
            model.optimizer.build(model.trainable_variables)  # no graph is traced that would make its state
        shapes = holdings.worst(held)
        began = time.monotonic()
        graphs = {}
        graph = None
        if not model.run_eagerly:
            held.of_any_rows()  # as they will be tried: a second graph would be no part of the training
            with tracing.collected(self._heart) as graphs:
                graph = held.trace(function)
        traced = time.monotonic() - began
        facts = {
            "before": before,
            "prepared": prepared,
            "epochs": self._epochs(),
            "steps": self._steps(),
            "key": fingerprint(model, "train", held, self._source),
            "likeness": fingerprint(model, "train", held, self._source, of_versions=False),
            "versions": versions(self._source),
            "own_step": has_own(model, "train", self._source),
            "wrote": written.kept(),
            "shapes": shapes,
            "samples": holdings.samples(self._heart.train_source, held.rows()),
            **outlook.facts_of(model, graph, graphs, held.rows(), *holdings.of(self._heart.train_source)),
        }
        facts["seconds"]["trace"] = traced
        facts["validation"] = self._validation(model, held)
        why_not = parts.why_not_cut(held.first())
        facts["cut"] = why_not
        self._heart.journal.write("plan", **facts)
        self._try_all(model, function, held)

    def _try_all(self, model, function, held):
        """Every size that is asked for."""
        told, trials = {}, itertools.count()
        while answer := self._heart.counsel.ask("planned", **told):
            rows = int(answer.get("rows") or 0)
            if not rows:
                return
            if answer.get("noting"):
                self._note(model, function, held, rows)
                told = {}
                continue
            gone = self._cleared(next(trials))
            told = self._tried(function, held, rows, min(PATIENCE, answer.get("seconds", PATIENCE)))
            if "peak" in told:
                told["peak"] += gone

    def _note(self, model, function, held, rows):
        """Some more steps behind a trial: what they take from TensorFlow's pool goes into the journal."""
        try:
            variables = [bytes_of(variable) for variable in (*model.variables, *model.optimizer.variables)]
            with pool.Recording(variables, os.environ["KEEPFIT_RECORD"]) as recording:
                self._some_more(function, held, rows)
        except Exception as error:
            self._heart.failed("planning.noting", error)
        else:
            if recording.told is not None:
                self._heart.journal.write("pool", rows=rows, **recording.told)

    def _some_more(self, function, held, rows):
        """As far as there is time, and memory for what the profiler keeps of them (twice: it writes it out)."""
        batches, limit = held.sized(rows, NOTED), self._heart.counsel.limit
        began, before = time.monotonic(), anonymous()
        for _ in range(NOTED):
            _step(function, batches)
            now = anonymous()
            if time.monotonic() - began > UNFELT or 2 * now - before > limit:
                return

    def _cleared(self, trial):
        """Bytes that a training would have in malloc's hands, and this trial has not.

        What smaller trials have left there is in no training; what the tracing left there is.
        """
        if trial == 1:
            self._ready = anonymous()  # traced and optimised, with next to no rows computed
        if trial < FORECAST:
            return 0
        give_back()
        return max(0, self._ready - anonymous())

    def _tried(self, function, held, rows, patience):
        """A trial; {untried}: why it failed, as a model of a fixed number of rows does."""
        try:
            return {"rows": rows, **_trial(function, *self._sized(held, rows), patience)}
        except Exception as error:
            self._heart.failed("planning.trial", error)
            return {"untried": f"a batch of {rows} rows failed ({type(error).__name__})"}

    def _sized(self, held, rows):
        """(batches of so many rows, the steps to run on them at least, and at most)"""
        return held.sized(rows, STEPS), STEPS, STEPS

    def _epochs(self):
        """How many times the `fit` that is going on begins its data anew."""
        if self._fit.get("steps_per_epoch") is not None:  # one iterator for all of them
            return 1
        return self._rounds()

    def _steps(self):
        """Of all of it, where the `fit` says how many there are in an epoch."""
        each = self._fit.get("steps_per_epoch")
        return self._rounds() * int(each) if each is not None else None

    def _rounds(self):
        return int(self._fit.get("epochs", 1)) - int(self._fit.get("initial_epoch", 0))

    def _validation(self, model, held):
        """{rows, bytes, seconds}: what its graph keeps alive at its peak; {failed}: why not. None: there is none."""
        given = self._fit
        rows = given.get("validation_batch_size") or 0
        if given.get("validation_data") is None and not given.get("validation_split"):
            return None
        if model.run_eagerly:
            return {"failed": "it runs eagerly, and has no graph"}
        try:
            if given.get("validation_data") is not None:
                batches = validation_batches(self._source, model, given)
                held = HeldBatches(iter(batches._distributed_dataset), model.steps_per_execution)
            # Without it, a split: rows like those of the training.
            began = time.monotonic()
            with tracing.collected(self._heart) as graphs:
                self._make_test(model)
                graph = held.trace(model.test_function)
            rows = rows or held.rows()
            size = liveness.peak_bytes(graph, graphs, held.rows(), rows)
            return {"rows": rows, "bytes": size, "seconds": time.monotonic() - began}
        except Exception as error:
            self._heart.failed("planning.validation", error)
            return {"failed": f"{type(error).__name__}: {str(error)[:200]}"}


def wait_to_be_ended():
    """Nothing of the script's runs any more; the supervisor takes the process and its children away."""
    supervisor = os.environ.get("KEEPFIT_PULSE", "")  # a file of its own, which is gone when it is
    while os.path.exists(supervisor):
        time.sleep(0.2)
    os._exit(1)


def _trial(function, batches, least, most, patience):
    """Some steps, more than the least while there is patience for one like the last.

    How far their peaks lie apart tells how far a training's may be from this one; the last ones how long one takes.
    """
    peak, peaks, took = Peak(), [], []
    while len(took) < least or (len(took) < most and sum(took) + took[-1] < patience):
        peak.reset()
        began = time.monotonic()
        _step(function, batches)
        took.append(time.monotonic() - began)
        peaks.append(peak.read())
    return {"peak": max(peaks), "spread": max(peaks[1:]) - min(peaks[1:]), "seconds": min(took[1:])}


def _step(function, batches):
    """From its beginning to its end."""
    tf().nest.map_structure(lambda leaf: getattr(leaf, "numpy", lambda: None)(), function(batches))


def _rows_of(graph):
    """The first dimension of a traced step's arguments, where they agree on one."""
    found = {int(tensor.shape[0]) for tensor in graph.inputs if tensor.shape.rank and tensor.shape[0] is not None}
    return found.pop() if len(found) == 1 else 0
