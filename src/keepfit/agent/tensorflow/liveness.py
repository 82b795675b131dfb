"""What a traced step needs at its peak, read from its graph without running it.

Operations are walked in their order; a tensor lives from its operation to its last reader, and an unknown
number of rows is the batch's. Not counted: an operation's own scratch space, and what the allocator rounds
up or keeps. So this is a first estimate, good to a factor of two; what is decided close to the limit is
measured.
"""

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


class _Count:
    def __init__(self, graphs, batch, rows):
        self._graphs = graphs
        self._batch = batch
        self._rows = rows
        self._known = {}  # peaks of graphs already walked

    def graph(self, graph):
        if id(graph) not in self._known:
            self._known[id(graph)] = 0  # a function that calls itself is counted once
            self._known[id(graph)] = self._walk(graph)
        return self._known[id(graph)]

    def _walk(self, graph):
        operations = graph.get_operations()
        readers = {}
        for tensor in [*(t for op in operations for t in op.inputs), *graph.outputs]:
            readers[id(tensor)] = readers.get(id(tensor), 0) + 1
        owned = {}  # id of a live tensor -> bytes
        live = peak = 0
        for operation in operations:
            inside = self._inside(operation)
            inputs = {id(tensor) for tensor in operation.inputs}
            for tensor in operation.inputs:
                readers[id(tensor)] -= 1
            dead = {key: owned[key] for key in inputs if key in owned and not readers[key]}
            made = {}
            for tensor in operation.outputs:
                size = self.bytes_of(tensor)
                if operation.type in _ALIASES:
                    # The same buffer under another shape, which may tell more of its size than the first did.
                    key = next(iter(dead), None)
                    taken = dead.pop(key) if key is not None else 0
                    owned.pop(key, None)
                    live -= taken
                    size = max(size, taken) if taken else 0
                elif operation.type in _IN_PLACE and size in dead.values():
                    key = next(key for key, value in dead.items() if value == size)
                    live -= dead.pop(key)
                    owned.pop(key, None)
                made[id(tensor)] = size
            live += sum(made.values())
            peak = max(peak, live + inside)
            for key in dead:
                live -= owned.pop(key, 0)
            for key, size in made.items():
                if readers.get(key):
                    owned[key] = size
                else:
                    live -= size
        return peak

    def _inside(self, operation):
        """What an operation that calls a function needs within it."""
        kind = operation.type
        if "PartitionedCall" in kind:
            return self._function(_attribute(operation, "f"))
        if kind in ("While", "StatelessWhile"):
            body = getattr(operation, "_body_graph", None)
            if body is None:
                return self._function(_attribute(operation, "body"))
            return self.graph(body) + self._pushed(operation, body)
        if kind in ("If", "StatelessIf"):
            branches = [getattr(operation, name, None) for name in ("_true_graph", "_false_graph")]
            return max((self.graph(branch) for branch in branches if branch is not None), default=0)
        return 0

    def _function(self, name):
        graph = self._graphs.get(name)
        return 0 if graph is None else self.graph(graph)

    def _pushed(self, loop, body):
        """What a loop keeps of every turn for the way back: as many turns as its lists have room for."""
        turns = 0
        for tensor in loop.inputs:
            if tensor.op.type in ("EmptyTensorList", "TensorListReserve"):
                limit = tf().get_static_value(tensor.op.inputs[1])
                turns = max(turns, int(limit) if limit is not None else 0)
        pushed = [op.inputs[1] for op in body.get_operations() if op.type == "TensorListPushBack"]
        return turns * sum(self.bytes_of(tensor) for tensor in pushed)

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
                dimension = self._rows
            count *= dimension or 1
        return count


def _attribute(operation, name):
    try:
        return operation.get_attr(name).name
    except (ValueError, AttributeError):
        return None
