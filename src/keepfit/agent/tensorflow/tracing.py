"""Graphs that are traced in order to be looked at: collected by name, and let go."""

import contextlib
import gc
from importlib import import_module


@contextlib.contextmanager
def collected(heart):
    """While it is open, every function that is traced goes into the dictionary, by its name."""
    heart.graphs = graphs = {}
    try:
        yield graphs
    finally:
        heart.graphs = None


def dismantle(graphs):
    """Graphs that nobody will call again. Nodes refer to their graph and it to them, out of the collector's sight.

    TensorFlow takes such a cycle apart where it sees the function go; those of a step that made variables
    (every optimizer does) it forgets, and they would stay for as long as the process.
    """
    gc.collect()
    dismantled = import_module("tensorflow.python.framework.func_graph").dismantle_func_graph
    for graph in graphs:
        dismantled(graph)
    gc.collect()
