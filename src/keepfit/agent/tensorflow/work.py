"""How the work of a traced step is shared out: multiplications counted in its graph, without running it.

An estimate of time: products of matrices and convolutions by their multiplications, everything else by the numbers it
writes, each of which costs about as much as a few multiplications because it goes through memory.
"""

from .liveness import Walk

WRITTEN = 8  # multiplications that a number written costs
_NOTHING = {"ReadVariableOp", "Const", "Placeholder", "Identity", "Reshape"}


def shares(graph, graphs, batch, read=None):
    """[(name of an operation, share of the work)], calls and loops looked into; a call's own name comes first."""
    found = list(_Work(graphs, batch, batch, read).of(graph, "", 1))
    whole = sum(work for _, work in found) or 1
    return [(name, work / whole) for name, work in found]


class _Work(Walk):
    def of(self, graph, caller, times):
        for node in self.nodes(graph):
            name = f"{caller}/{node.operation.name}" if caller else node.operation.name
            if not node.callees:
                yield name, times * self._work(node)
                continue
            turns = self.turns(node.operation) if "While" in node.kind else 1
            yield from self.of(node.callees[0], name, times * max(1, turns))  # of two branches one is taken

    def _work(self, node):
        written = 0 if node.kind in _NOTHING else sum(map(self._count, node.outputs))
        if not written:
            return 0
        return WRITTEN * written + self._products(node, written)

    def _products(self, node, written):
        operation, kind, inputs = node.operation, node.kind, node.inputs
        if kind in ("MatMul", "BatchMatMulV2"):
            transposed = operation.get_attr("transpose_a" if kind == "MatMul" else "adj_x")
            return written * self._dimension(inputs[0], -2 if transposed else -1)
        if kind in ("Conv2D", "Conv3D"):
            return written * _window(inputs[1], 1)
        if kind == "DepthwiseConv2dNative":
            return written * _window(inputs[1], 2)
        # On the way back as many as on the way there: the gradient of the output is the third input.
        if "BackpropInput" in kind:
            return self._count(inputs[2]) * _window(inputs[1], 1)
        if "BackpropFilter" in kind:
            return self._count(inputs[2]) * _window(operation.outputs[0], 1)
        return 0

    def _count(self, tensor):
        return self.bytes_of(tensor) // 4

    def _dimension(self, tensor, place):
        shape = tensor.shape.as_list() if tensor.shape.rank else [1, 1]
        known = shape[place]
        return self.rows if known is None and place + len(shape) == 0 else known or 1


def _window(kernel, last):
    """Multiplications for a number that a convolution writes: all dimensions of its kernel but the last ones."""
    result = 1
    for dimension in kernel.shape.as_list()[:-last] if kernel.shape.rank else ():
        result *= dimension or 1
    return result
