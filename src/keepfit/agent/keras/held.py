"""Batches taken from a step's data to be looked at, and handed on as if nobody had."""

from ..tensorflow import parts
from ..tensorflow.parts import tf


class NothingHeld(Exception):
    """The data ended, or failed, before its first batch."""


class HeldBatches:
    """The next batches of an iterator: TensorFlow's own, or (train_on_batch) any Python one.

    Nothing is taken before it is asked for. `rows` is the batch size where it is known without looking.
    """

    def __init__(self, iterator, count, rows=0):
        self._iterator = iterator
        self.is_tf = isinstance(iterator, tf().data.Iterator)
        self._wanted = count
        self._rows = rows
        self._batches = None
        self._shaped = None  # specs to trace for, where they are not the iterator's own
        self._ended = None  # what the iterator raised, at its end or in the middle

    @property
    def count(self):
        """How many batches an execution takes."""
        return self._wanted

    def first(self):
        return self._taken()[0]

    def rows(self):
        self._rows = self._rows or int(parts.rows_of(self.first()))
        return self._rows

    def spec(self):
        return self._iterator.element_spec if self.is_tf else tf().nest.map_structure(_shape, self.first())

    def trace(self, function):
        """The graph of the step for this data, traced as the step itself would be; nothing is run."""
        inner = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ())))
        if self.is_tf:
            read = self._iterator if self._shaped is None else tf().data.IteratorSpec(self._shaped)
            return inner["multi_step_on_iterator"].get_concrete_function(read).graph
        return inner["one_step_on_data"].__wrapped__.get_concrete_function(self.first()).graph

    def again(self):
        """The held batches, to be computed with and held on to."""
        return self._replayed() if self.is_tf else iter(self._taken())

    def sized(self, rows, times):
        """Batches of so many rows, made of those of the first one: enough for `times` executions."""
        first = self.first()
        places = tf().range(rows) % parts.rows_of(first)
        batch = parts.rows_at(first, places)
        if not self.is_tf:
            return iter([batch] * self.count * times)
        self.of_any_rows()
        return self._iterating([batch] * self.count * times, self._shaped)

    def of_any_rows(self):
        """From now on the step is traced once, for batches of any number of rows."""
        if self.is_tf and self._shaped is None:
            self._shaped = parts.of_any_rows(self._iterator.element_spec)

    def listed(self):
        """The batches themselves; where there are none, as the iterator ended."""
        try:
            return self._taken()
        except NothingHeld:
            raise (self._ended or StopIteration()) from None

    def more(self):
        """The batches behind the held ones, taken for good."""
        while True:
            try:
                yield next(self._iterator)
            except (StopIteration, tf().errors.OutOfRangeError):
                return

    def instead(self, batch):
        """Another batch of the same data in place of those held; the step is traced for sizes such as its own."""
        self._taken()[:] = [batch] * len(self._taken())
        self._rows = 0
        self._shaped = parts.of_any_rows(batch)

    def handed_on(self):
        """What the real step is to read: the iterator itself where nothing was taken from it."""
        if self._batches is None:
            return self._iterator
        if not self._batches and self._ended is not None:
            raise self._ended
        iterator = self.again()
        self._batches = None
        return iterator

    def surface(self):
        """After the held batches were computed: an error of the data's that came behind them."""
        ended, self._ended = self._ended, None
        if ended is not None and not isinstance(ended, (StopIteration, tf().errors.OutOfRangeError)):
            raise ended

    def _taken(self):
        if self._batches is None:
            self._batches = []
            try:
                for _ in range(self._wanted):
                    self._batches.append(next(self._iterator))
            except Exception as end:  # the end, or the user's own error: told where it would have been met
                self._ended = end
        if not self._batches:
            raise NothingHeld
        return self._batches

    def _replayed(self):
        """A tf.data iterator over the held batches, of the same type as the one they came from."""
        return self._iterating(self._taken(), self._iterator.element_spec)

    def _iterating(self, batches, spec):
        def relaxed(*element):
            element = element[0] if len(element) == 1 and not isinstance(spec, tuple) else element
            return tf().nest.map_structure(_as_specified, element, spec)

        relaxed = tf().autograph.experimental.do_not_convert(relaxed)
        datasets = [tf().data.Dataset.from_tensors(batch).map(relaxed) for batch in batches]
        joined = datasets[0]
        for dataset in datasets[1:]:
            joined = joined.concatenate(dataset)
        return iter(joined)


class HeldList:
    """`predict` takes its batches in Python: they are there already."""

    def __init__(self, batches):
        self._batches = batches
        self.count = len(batches)

    def first(self):
        return self._batches[0]

    def rows(self):
        return int(parts.rows_of(self.first()))

    def spec(self):
        return tf().nest.map_structure(_shape, self.first())

    def trace(self, function):
        return function.get_concrete_function(self._batches).graph

    def again(self):
        return self._batches

    def handed_on(self):
        return self._batches

    def surface(self):
        return None


def _shape(leaf):
    return None if leaf is None else (tuple(leaf.shape[1:]), str(leaf.dtype))


def _as_specified(leaf, spec):
    """The tensor with no more known of its shape than the original iterator knew."""
    if isinstance(leaf, tf().Tensor) and isinstance(spec, tf().TensorSpec):
        return tf().compat.v1.placeholder_with_default(leaf, spec.shape)
    return leaf
