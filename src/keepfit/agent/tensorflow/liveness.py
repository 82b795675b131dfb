"""What a traced step needs at its peak, read from its graph without running it.

Operations are walked in their order; a tensor lives from its operation to its last reader, and an unknown
number of rows is the batch's. Not counted: an operation's own scratch space, and what the allocator rounds
up or keeps. So this is a first estimate, good to a factor of two; what is decided close to the limit is
measured.
"""

import collections
import itertools

from .parts import tf

# The output is the input's own buffer.
_ALIASES = {
    "Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient", "ReadVariableOp",
    "EnsureShape", "Bitcast", "Const", "NoOp", "VarHandleOp", "Placeholder", "Shape",
}  # fmt: skip
# The output may take the place of an input of the same size that nobody else needs.
_IN_PLACE = {
    "Relu", "Relu6", "ReluGrad", "Tanh", "TanhGrad", "Sigmoid", "SigmoidGrad", "Add", "AddV2", "Sub", "Mul", "RealDiv",
    "BiasAdd", "Neg", "Exp", "Sqrt", "Rsqrt", "Square", "AddN", "Softmax", "Maximum", "Minimum", "Elu", "Erf",
}  # fmt: skip


def estimate(graph, graphs, batch):
    """What the supervisor wants to know: bytes for the whole batch, and for a single row."""
    return {"whole": peak_bytes(graph, graphs, batch, batch), "one": peak_bytes(graph, graphs, batch, 1)}


def peak_bytes(graph, graphs, batch, rows):
    """The peak of one call with `rows` in place of `batch`; `graphs` are the functions traced on the way, by name."""
    return _Count(graphs, batch, rows).graph(graph)


def at_peak(graph, graphs, batch, rows):
    """[(name of an operation, bytes of what it made)] of all that is alive at the peak, calls looked into."""
    return list(_Count(graphs, batch, rows).alive(graph))


class _Buffer:
    """Memory that one or more tensors lie in, until its last reader has run."""

    def __init__(self, maker, size):
        self.maker = maker
        self.size = size
        self.readers = 0


class Walk:
    """What walking a graph needs: the functions that its operations run, and the sizes of what they make."""

    def __init__(self, graphs, batch, rows):
        """`graphs`: functions by name; `rows` take the place of the `batch` that was traced."""
        self._graphs = graphs
        self._batch = batch
        self.rows = rows

    def callees(self, operation):
        """Graphs that an operation runs, one or the other."""
        kind = operation.type
        if "PartitionedCall" in kind:
            return self._named(operation, "f")
        if kind in ("While", "StatelessWhile"):
            body = getattr(operation, "_body_graph", None)
            return [body] if body is not None else self._named(operation, "body")
        if kind in ("If", "StatelessIf"):
            branches = [getattr(operation, name, None) for name in ("_true_graph", "_false_graph")]
            return [branch for branch in branches if branch is not None]
        return []

    def _named(self, operation, attribute):
        """The graph of a function that an operation names."""
        name = _attribute(operation, attribute)
        graph = self._graphs.get(name)
        if graph is None and name is not None:
            known = operation.graph._get_function(name)
            graph = getattr(known, "graph", None)
        return [] if graph is None else [graph]

    def turns(self, loop):
        """Of a loop that keeps something for the way back: as many as its lists have room for; 0: not known."""
        turns = 0
        for tensor in loop.inputs:
            if tensor.op.type in ("EmptyTensorList", "TensorListReserve"):
                limit = tf().get_static_value(tensor.op.inputs[1])
                turns = max(turns, int(limit) if limit is not None else 0)
        return turns

    def bytes_of(self, tensor):
        dtype, shape = tensor.dtype, tensor.shape
        if dtype in (tf().resource, tf().variant, tf().string):
            return 0
        if shape.rank is None:
            return 0
        count = dtype.size
        for place, dimension in enumerate(shape):
            # A first dimension that is not known, or was traced as the batch's, is the batch's.
            if place == 0 and dimension in (None, self._batch):
                dimension = self.rows
            count *= dimension or 1
        return count


class _Count(Walk):
    def __init__(self, graphs, batch, rows):
        super().__init__(graphs, batch, rows)
        self._known = {}  # graphs already walked -> (peak, number of the operation it comes at)

    def graph(self, graph):
        return self._found(graph)[0]

    def _found(self, graph):
        if id(graph) not in self._known:
            self._known[id(graph)] = 0, 0  # a function that calls itself is counted once
            peak = most = 0
            for number, (_, live, inside, _) in enumerate(self._walk(graph)):
                if live + inside > peak:
                    peak, most = live + inside, number
            self._known[id(graph)] = peak, most
        return self._known[id(graph)]

    def alive(self, graph):
        most = self._found(graph)[1]
        operation, _, _, owned = next(itertools.islice(self._walk(graph), most, None), (None, 0, 0, ()))
        yield from ((buffer.maker, buffer.size) for buffer in owned if buffer.size)
        if operation is None:
            return
        inner, kept = self._called(operation)
        if kept:
            yield operation.name, kept
        if inner:
            yield from self.alive(max(inner, key=self.graph))

    def _walk(self, graph):
        """Operation by operation: (it, bytes alive while it runs, bytes inside it, all buffers that are alive)."""
        operations = graph.get_operations()
        readers = collections.Counter(id(tensor) for operation in operations for tensor in operation.inputs)
        readers.update(id(tensor) for tensor in graph.outputs)
        buffers = {}  # id of a tensor -> the buffer it lies in
        alive = {}  # id of a buffer -> buffer
        live = 0
        for operation in operations:
            inputs = [buffers[id(tensor)] for tensor in operation.inputs if id(tensor) in buffers]
            for buffer in inputs:
                buffer.readers -= 1
            made = []
            for place, tensor in enumerate(operation.outputs):
                size, buffer = self.bytes_of(tensor), None
                if operation.type in _ALIASES:
                    source = operation.inputs[min(place, len(operation.inputs) - 1)] if len(operation.inputs) else None
                    buffer = buffers.get(id(source))
                    if buffer is None:
                        continue  # a variable, a constant, an argument: no memory of this step's
                    # The same buffer under another shape, which may tell more of its size than the first did.
                    live += max(0, size - buffer.size)
                    buffer.size = max(size, buffer.size)
                elif operation.type in _IN_PLACE:
                    buffer = next((b for b in inputs if b.size == size and not b.readers and id(b) in alive), None)
                if buffer is None:
                    buffer = _Buffer(operation.name, size)
                    alive[id(buffer)] = buffer
                    live += size
                elif operation.type in _IN_PLACE:
                    buffer.maker = operation.name
                buffer.readers += readers[id(tensor)]
                buffers[id(tensor)] = buffer
                made.append(buffer)
            yield operation, live, self._inside(operation), alive.values()
            for buffer in (*inputs, *made):
                if not buffer.readers and alive.pop(id(buffer), None) is not None:
                    live -= buffer.size

    def _inside(self, operation):
        """What an operation that calls a function needs within it."""
        inner, kept = self._called(operation)
        return kept + max(map(self.graph, inner), default=0)

    def _called(self, operation):
        """(graphs that an operation runs, one or the other; bytes that they leave behind while it runs)."""
        inner = self.callees(operation)
        loops = operation.type in ("While", "StatelessWhile") and getattr(operation, "_body_graph", None) is not None
        return inner, self._pushed(operation, inner[0]) if loops else 0

    def _pushed(self, loop, body):
        """What a loop keeps of every turn for the way back."""
        pushed = [op.inputs[1] for op in body.get_operations() if op.type == "TensorListPushBack"]
        return self.turns(loop) * sum(self.bytes_of(tensor) for tensor in pushed)


def _attribute(operation, name):
    try:
        return operation.get_attr(name).name
    except (ValueError, AttributeError):
        return None
