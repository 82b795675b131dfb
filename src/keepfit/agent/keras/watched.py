"""One step function of one model under watch: its numbers of late, and the batches it hands over.

Everything here runs outside of what XLA compiles, on the host: a ring that the graph itself writes to, and a call
into Python for a batch that is to be looked at, which costs nothing as long as there is none.
"""

import collections
import weakref

from ..tensorflow import snapshot, variables
from ..tensorflow.parts import np, tf
from . import targets

FEW = 64  # rows of a batch that was asked for; of one that is not finite all are handed over
RING = 512  # steps whose loss and gradient norm are remembered

# number: of the step, from 1; logs: what the step itself would have told callbacks, before it was put back
Batch = collections.namedtuple("Batch", "number is_finite loss squares logs data")


class Watched:
    def __init__(self, model, step, source):
        self.model = weakref.ref(model)
        self._source = source
        self.step = step
        self.names = []  # of the variables whose gradients are seen, in the order of `squares`
        self._trained = []
        self.is_traced = False
        self._tries = False
        self.scaled = False  # an optimizer scales the loss, and deals with overflows itself
        self.classes = None  # a variable: how often each came in the first epoch
        with tf().init_scope(), tf().device("CPU:0"):
            self.count = tf().Variable(0, dtype=tf().int64, trainable=False, name="keepfit_steps")
            self.asked = tf().Variable(False, trainable=False, name="keepfit_asked")
            self.counting = tf().Variable(False, trainable=False, name="keepfit_counting")
            self._ring = tf().Variable(np().zeros((RING, 2), "float32"), trainable=False, name="keepfit_ring")

    def changed_by_steps(self, model):
        """What a step changes besides the weights: statistics and counters of layers, seeds, metrics, loss scale."""
        found = {id(variable): variable for variable in model.metrics_variables}
        for layer in model._flatten_layers():
            found.update((id(variable), variable) for variable in layer._non_trainable_variables)
        seeds, extras = snapshot.seeds_and_extras(model)
        found.update((id(variable), variable) for variable in [*seeds, *extras])
        optimizer = getattr(model, "optimizer", None)
        if hasattr(optimizer, "dynamic_scale") and optimizer.built:
            found.update((id(variable), variable) for variable in (optimizer.dynamic_scale, optimizer.step_counter))
        return list(found.values())

    def trains(self, gradients, trained):
        """While it is traced: whose gradients `squares` are."""
        for gradient, variable in zip(gradients, trained):
            if gradient is not None and id(variable) not in self._trained:
                self._trained.append(id(variable))
                self.names.append(getattr(variable, "path", None) or variable.name)

    def begin_trace(self):
        """The function is made anew: perhaps of other variables."""
        self.names, self._trained, self.is_traced = [], [], False

    def note(self, flags, data, shown, handed):
        """After a step: its numbers go into the ring, and a batch that is wanted goes to Python.

        `shown`: what the step returns, as it is.
        """
        ok, loss, squares = flags
        logs = _scalars(shown)
        members = tf().nest.map_structure(present, data)
        there = [leaf for leaf in tf().nest.flatten(members) if leaf is not None]
        specs = tf().nest.map_structure(lambda leaf: None if leaf is None else tf().type_spec_from_value(leaf), members)
        leaves = tf().nest.flatten(there, expand_composites=True)
        if any(leaf.dtype in (tf().variant, tf().resource) for leaf in leaves):
            leaves, specs = [], None  # nothing that Python could look at
        whole = len(leaves) != len(there)  # ragged and sparse ones have parts of their own, which cannot be cut

        def receive(number, is_finite, loss, squares, *rest):
            if not self._tries:
                told = dict(zip(logs, rest))
                held = specs, rest[len(logs) :]
                handed(self, Batch(int(number), bool(is_finite), float(loss), np().array(squares), told, held))

        def hand_over(chosen):
            told = [number, ok, loss, squares, *logs.values(), *chosen]
            if tf().executing_eagerly():
                receive(*(tensor.numpy() for tensor in told))
            else:
                tf().numpy_function(receive, told, [])
            self.asked.assign(False)
            return True

        def a_few():
            return hand_over(leaves if whole else [_first(leaf) for leaf in leaves])

        with tf().device("CPU:0"):
            number = self.count.assign_add(1, read_value=True)
            if self.step == "train":
                total = tf().reduce_sum(squares)
                self._ring.scatter_nd_update([[(number - 1) % RING]], [tf().stack([loss, total])])
                self._count_classes(members)
            tf().cond(ok, lambda: tf().cond(self.asked, a_few, lambda: False), lambda: hand_over(leaves))

    def _count_classes(self, members):
        """In the first epoch of data that is no array: which classes come at all."""
        labels = members[1] if isinstance(members, tuple) and len(members) > 1 else None
        classes = targets.classes_of(self.model(), self._source) if tf().is_tensor(labels) else 0
        if not classes or not labels.dtype.is_integer:
            return
        if self.classes is None or int(self.classes.shape[0]) != classes:
            with tf().init_scope():
                self.classes = tf().Variable(np().zeros(classes, "int32"), trainable=False, name="keepfit_classes")
        total = self.classes
        tf().cond(self.counting, lambda: total.assign_add(targets.counted(labels, classes)) is None, lambda: False)

    def begin_counting(self, wanted):
        self.counting.assign(wanted)
        if self.classes is not None:
            self.classes.assign(tf().zeros_like(self.classes))

    def is_counting(self):
        return self.classes is not None and bool(self.counting.numpy())

    def begin_trials(self):
        """What is computed from now on is not part of the training."""
        self._tries = True
        return self.count.numpy()

    def end_trials(self, counted):
        self._tries = False
        self.count.assign(counted)

    def recent(self, count=RING):
        """The last steps, oldest first: (losses, norms of all gradients together) as arrays."""
        number = int(self.count.numpy())
        rows = variables.read(self._ring).numpy()
        last = [(step - 1) % RING for step in range(max(1, number - min(count, RING) + 1), number + 1)]
        return rows[last, 0], np().sqrt(2 * rows[last, 1])


def data_of(batch):
    """The batch as the step was given it, as tensors; None where it could not be handed over."""
    specs, leaves = batch.data
    if specs is None:
        return None
    flat = tf().nest.flatten(specs)
    there = [spec for spec in flat if spec is not None]
    whole = tf().nest.pack_sequence_as(there, [tf().constant(leaf) for leaf in leaves], expand_composites=True)
    values = iter(whole)
    return tf().nest.pack_sequence_as(specs, [None if spec is None else next(values) for spec in flat])


def _scalars(shown):
    """The numbers of a step's logs."""
    if not isinstance(shown, dict):
        return {}
    return {name: value for name, value in shown.items() if tf().is_tensor(value) and value.shape.rank == 0}


def _first(leaf):
    """A few rows: enough to see what a batch is like."""
    return leaf[:FEW] if leaf.shape.rank else leaf


def present(leaf):
    if leaf is None or isinstance(leaf, tf().experimental.Optional):
        return None
    return leaf if hasattr(leaf, "_type_spec") or tf().is_tensor(leaf) else tf().convert_to_tensor(leaf)
