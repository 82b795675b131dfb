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
    "EnsureShape", "Bitcast", "Const", "NoOp", "VarHandleOp", "Placeholder",
}  # fmt: skip
# Of the input only its shape is read, as soon as it is there: nothing is kept for that.
_SHAPES = {"Shape", "ShapeN", "Size", "Rank"}
_LOOPS = {"While", "StatelessWhile"}
# The output may take the place of an input of the same size that nobody else needs.
_IN_PLACE = {
    "Relu", "Relu6", "ReluGrad", "Tanh", "TanhGrad", "Sigmoid", "SigmoidGrad", "Add", "AddV2", "Sub", "Mul", "RealDiv",
    "BiasAdd", "Neg", "Exp", "Sqrt", "Rsqrt", "Square", "AddN", "Softmax", "Maximum", "Minimum", "Elu", "Erf",
}  # fmt: skip


def estimate(graph, graphs, batch):
    """What the supervisor wants to know: bytes for the whole batch, and for a single row."""
    one, whole = Count(graphs, batch, (1, batch)).peaks(graph)
    return {"whole": whole, "one": one}


def peak_bytes(graph, graphs, batch, rows):
    """The peak of one call with `rows` in place of `batch`; `graphs` are the functions traced on the way, by name."""
    return Count(graphs, batch, (rows,)).peaks(graph)[0]


_Node = collections.namedtuple("_Node", "operation kind inputs outputs callees")


class _Buffer:
    """Memory that one or more tensors lie in, until its last reader has run: `fixed` bytes, and `each` for a row."""

    def __init__(self, maker, fixed, each):
        self.maker = maker
        self.fixed, self.each = fixed, each
        self.readers = 0


class Walk:
    """What walking a graph needs: the functions that its operations run, and the sizes of what they make."""

    def __init__(self, graphs, batch, rows, read=None):
        """`graphs`: functions by name; `rows` take the place of the `batch` that was traced.

        `read` is what earlier walks have read of the same graphs: to ask TensorFlow takes most of the time.
        """
        self._graphs = graphs
        self._batch = batch
        self.rows = rows
        self._read = {} if read is None else read

    def nodes(self, graph):
        """Its operations in their order, with all that is asked of them."""
        found = self._read.get(id(graph))
        if found is None:
            found = self._read[id(graph)] = [
                _Node(each, each.type, tuple(each.inputs), tuple(each.outputs), tuple(self._callees(each)))
                for each in graph.get_operations()
            ]
        return found

    def _callees(self, operation):
        """Graphs that an operation runs, one or the other."""
        kind = operation.type
        if "PartitionedCall" in kind:
            return self._named(operation, "f")
        if kind in _LOOPS:
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
        """Of a loop: as many as the lists that it fills have room for, or that it reads are long; 0: not known."""
        turns = 0
        for tensor in loop.inputs:
            if tensor.op.type in ("EmptyTensorList", "TensorListReserve"):
                limit = tf().get_static_value(tensor.op.inputs[1])
                turns = max(turns, int(limit) if limit is not None else 0)
            elif tensor.op.type == "TensorListFromTensor":
                shape = tensor.op.inputs[0].shape
                turns = max(turns, (shape[0] if shape.rank else 0) or 0)
        return turns

    def bytes_of(self, tensor):
        size, by_rows, _ = self._shape(tensor)
        return size * self.rows if by_rows else size

    def only_rows_unknown(self, tensor):
        """Whether its first dimension is the only one that is not known."""
        return self._shape(tensor)[2]

    def _shape(self, tensor):
        """(bytes, whether for each row of the batch, whether the first dimension alone is not known)."""
        found = self._read.get(id(tensor))
        if found is None:
            found = self._read[id(tensor)] = _shape_of(tensor, self._batch)
        return found


def _shape_of(tensor, batch):
    shape = tensor.shape
    if shape.rank is None or tensor.dtype.name in ("resource", "variant", "string"):
        return 0, False, False
    dimensions = shape.as_list()
    unknown = [place for place, dimension in enumerate(dimensions) if dimension is None]
    # The batch's is the one that comes first and was traced as the batch's, or the first that is not known.
    by_rows = bool(dimensions) and (dimensions[0] == batch or bool(unknown))
    if by_rows:
        dimensions[0 if dimensions[0] == batch else unknown[0]] = 1
    size = tensor.dtype.size
    for dimension in dimensions:
        size *= dimension or 1
    return size, by_rows, unknown == [0]


class Count(Walk):
    """For several numbers of rows in one walk; the last of them says which of two buffers is the larger one."""

    def __init__(self, graphs, batch, wanted, read=None):
        super().__init__(graphs, batch, wanted[-1], read)
        self._wanted = tuple(wanted)
        self._known = {}  # graphs already walked -> [(peak, number of the operation it comes at)], as `_found` has it

    def peaks(self, graph):
        """Bytes, for each of the wanted rows."""
        return [peak for peak, _ in self._found(graph)]

    def curve(self, graph):
        """[(rows, bytes)]"""
        return list(zip(self._wanted, self.peaks(graph)))

    def _found(self, graph):
        """[(peak, number of the operation it comes at)], one for each of the wanted rows."""
        if id(graph) not in self._known:
            found = [(0, 0)] * len(self._wanted)
            self._known[id(graph)] = tuple(found)  # a function that calls itself is counted once
            for number, (node, fixed, each, _) in enumerate(self._walk(graph)):
                inside = [self.peaks(callee) for callee in node.callees]
                for place, rows in enumerate(self._wanted):
                    whole = fixed + each * rows + (max(peaks[place] for peaks in inside) if inside else 0)
                    if whole > found[place][0]:
                        found[place] = whole, number
            self._known[id(graph)] = found
        return self._known[id(graph)]

    def alive(self, graph, rows):
        """(name of an operation, bytes of what it made), of all that is alive at the peak of so many; they are wanted.

        Calls are looked into.
        """
        place = self._wanted.index(rows)
        most = self._found(graph)[place][1]
        node, _, _, owned = next(itertools.islice(self._walk(graph), most, None), (None, 0, 0, ()))
        yield from ((buffer.maker.name, size) for buffer in owned if (size := buffer.fixed + buffer.each * rows))
        if node is not None and node.callees:
            yield from self.alive(max(node.callees, key=lambda callee: self.peaks(callee)[place]), rows)

    def _whole(self, fixed, each):
        return fixed + each * self.rows

    def _walk(self, graph):
        """Node by node: (it, bytes alive while it runs, more for each row, all buffers that are alive)."""
        nodes = self.nodes(graph)
        readers = collections.Counter(
            id(tensor) for node in nodes if node.kind not in _SHAPES for tensor in node.inputs
        )
        readers.update(id(tensor) for tensor in graph.outputs)
        buffers = {}  # id of a tensor -> the buffer it lies in
        alive = {}  # id of a buffer -> buffer
        live = live_each = 0
        for node in nodes:
            operation, kind = node.operation, node.kind
            if kind in _SHAPES:
                yield node, live, live_each, alive.values()
                continue
            inputs = [buffers[id(tensor)] for tensor in node.inputs if id(tensor) in buffers]
            for buffer in inputs:
                buffer.readers -= 1
            alias = kind in _ALIASES or self._changes_nothing(node)
            longer = 1.0 if alias else self._longer(node, buffers)
            made = []
            for place, tensor in enumerate(node.outputs):
                buffer = None
                if alias:
                    source = node.inputs[min(place, len(node.inputs) - 1)] if node.inputs else None
                    buffer = buffers.get(id(source))
                    if buffer is None:
                        continue  # a variable, a constant, an argument: no memory of this step's
                fixed, each = self._size(tensor)
                if kind in _LOOPS and tensor.dtype.name == "variant":
                    fixed, each = self._listed(node, place)
                elif longer != 1.0 and self.only_rows_unknown(tensor):
                    each = int(each * longer)
                if alias:
                    # The same buffer under another shape, which may tell more of its size than the first did.
                    if self._whole(fixed, each) > self._whole(buffer.fixed, buffer.each):
                        live, live_each = live + fixed - buffer.fixed, live_each + each - buffer.each
                        buffer.fixed, buffer.each = fixed, each
                elif kind in _IN_PLACE:
                    same = (b for b in inputs if b.fixed == fixed and b.each == each)
                    buffer = next((b for b in same if not b.readers and id(b) in alive), None)
                if buffer is None:
                    buffer = _Buffer(operation, fixed, each)
                    alive[id(buffer)] = buffer
                    live, live_each = live + fixed, live_each + each
                elif kind in _IN_PLACE:
                    buffer.maker = operation
                buffer.readers += readers[id(tensor)]
                buffers[id(tensor)] = buffer
                made.append(buffer)
            yield node, live, live_each, alive.values()
            for buffer in (*inputs, *made):
                if not buffer.readers and alive.pop(id(buffer), None) is not None:
                    live, live_each = live - buffer.fixed, live_each - buffer.each

    def _size(self, tensor):
        """(bytes whatever the rows, bytes for each of them)"""
        size, by_rows, _ = self._shape(tensor)
        return (0, size) if by_rows else (size, 0)

    def _longer(self, node, buffers):
        """How many times the batch's rows an unknown first dimension has, where it came of a reshape: as its inputs'.

        A layer over sequences flattens rows and time, and nothing but the size of the buffer tells it afterwards.
        """
        times = 1.0
        for tensor in node.inputs:
            buffer = buffers.get(id(tensor))
            if buffer is not None and self.only_rows_unknown(tensor):
                times = max(times, self._whole(buffer.fixed, buffer.each) / max(1, self.bytes_of(tensor)))
        return times

    def _changes_nothing(self, node):
        """A transposition that leaves the axes in their order, as a product of sequences has it."""
        if node.kind != "Transpose":
            return False
        known = self._read.get(id(node))
        if known is None:
            order = tf().get_static_value(node.inputs[1])
            known = self._read[id(node)] = order is not None and list(order) == sorted(order)
        return known

    def _listed(self, loop, place):
        """The size of a list that a loop fills, turn by turn; what lies elsewhere already is not counted again."""
        body = next(iter(loop.callees), None)
        if body is None or place >= len(body.outputs):
            return 0, 0
        filling = _origin(body.outputs[place]).op
        if filling.type == "TensorListPushBack":
            element = _origin(filling.inputs[1])
        elif filling.type == "TensorListSetItem":
            element = _origin(filling.inputs[2])
            if id(element) in self._pushed(body):  # the same tensor in two lists
                return 0, 0
        else:
            return 0, 0
        if self._is_elsewhere(element, body):
            return 0, 0
        turns, (fixed, each) = self.turns(loop.operation), self._size(element)
        return turns * fixed, turns * each

    def _is_elsewhere(self, element, body):
        """Whether what a turn keeps is a variable, an element of a list, or what the turn before has kept."""
        if element.op.type in ("ReadVariableOp", "TensorListGetItem", "Const"):
            return True
        place = next((place for place, given in enumerate(body.inputs) if given is element), None)
        if place is None or place >= len(body.outputs):
            return False
        following = _origin(body.outputs[place])
        return following is element or id(following) in self._pushed(body)

    def _pushed(self, body):
        """The tensors that a turn keeps for the way back, by id."""
        pushing = (operation for operation in body.get_operations() if operation.type == "TensorListPushBack")
        return {id(_origin(operation.inputs[1])) for operation in pushing}


def _origin(tensor):
    """The tensor itself, where others only stand for it."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _attribute(operation, name):
    try:
        return operation.get_attr(name).name
    except (ValueError, AttributeError):
        return None
