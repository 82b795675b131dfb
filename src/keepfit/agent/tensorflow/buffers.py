"""What a tf.data pipeline holds in memory, stage by stage, read from the pipeline itself."""

from ..processor import processors
from . import liveness
from .parts import np, tf

AHEAD = 2  # elements that are fetched ahead where TensorFlow chooses
UNTOLD = 256  # entries assumed along an axis whose length the pipeline does not tell
ELEMENT, TENSOR = 64, 128  # bytes of bookkeeping of an element that is kept, and of each tensor in it
STRING = 24  # bytes of a short string; a longer one lies outside of it
SHUFFLE, CACHE, FETCHED, WORKING = "shuffle", "cache", "prefetch", "working"


def stages(dataset):
    """Every dataset that a pipeline is made of, each once."""
    waiting, seen = [dataset], set()
    while waiting:
        stage = waiting.pop()
        if id(stage) not in seen:
            seen.add(id(stage))
            waiting += stage._inputs()
            yield stage


def of(dataset):
    """[{stage, elements, bytes}] of the stages that hold elements, when their buffers are full."""
    found = [told for stage in stages(dataset) if (told := _held(stage))]
    return found + [told for stage in stages(dataset) for told in _inner(stage)]


def preloaded(dataset):
    """Bytes of arrays that the pipeline starts from."""
    return sum(
        _tensor_bytes(tensor)
        for stage in stages(dataset)
        for tensor in tf().nest.flatten(getattr(stage, "_tensors", None) or ())
    )


def kept(dataset):
    """Bytes that a copy of the pipeline's position would take: shuffles, caches, what is fetched ahead."""
    return sum(each["bytes"] for each in of(dataset) if each["stage"] in (SHUFFLE, CACHE, FETCHED))


def _held(stage):
    name = type(stage).__name__
    sources = stage._inputs()
    spec, rows = stage.element_spec, _rows(stage)
    if "Shuffle" in name:
        return _told(SHUFFLE, _at_most(_number(getattr(stage, "_buffer_size", 0)), sources), spec, rows)
    if "Cache" in name and not _text(getattr(stage, "_filename", b"")):
        return _told(CACHE, max(0, _number(stage.cardinality())), spec, rows)
    if "Prefetch" in name:
        ahead = _number(getattr(stage, "_buffer_size", AHEAD))
        return _told(FETCHED, _at_most(ahead if ahead > 0 else AHEAD, sources), spec, rows)
    if "ParallelInterleave" in name:
        return _told(WORKING, _together(stage), spec, rows)
    if "Parallel" in name or "MapAndBatch" in name:
        calls = _number(getattr(stage, "_num_parallel_calls", AHEAD))
        calls = calls if calls > 0 else processors()
        told = _told(WORKING, calls, spec, rows)
        return {**told, "bytes": max(told["bytes"], calls * _inside(stage, rows))}
    return None


def _at_most(elements, sources):
    """As many, where there are as many; all of them (a negative number), where it is known how many that is."""
    known = _number(sources[0].cardinality()) if sources else -1
    if elements < 0:
        return max(0, known)
    return min(elements, known) if known >= 0 else elements


def _together(stage):
    """How many pipelines an interleaving stage has open at a time."""
    length = _number(getattr(stage, "_cycle_length", 1))
    return length if length > 0 else processors()


def _rows(stage):
    """Rows of a batch, where the elements are batches whose last one may be shorter."""
    while (size := getattr(stage, "_batch_size", None)) is None:
        if len(sources := stage._inputs()) != 1:
            return UNTOLD
        stage = sources[0]
    return _number(size)


def _inside(stage, rows):
    """Bytes at the peak of one call of a stage's function."""
    function = getattr(getattr(stage, "_map_func", None), "function", None)
    return liveness.peak_bytes(function.graph, {}, rows, rows) if function is not None else 0


def _inner(stage):
    """What the pipelines hold that a function of this stage makes, as many as are open at a time."""
    function = getattr(getattr(stage, "_map_func", None), "function", None)
    if function is None or not any(word in type(stage).__name__ for word in ("Interleave", "FlatMap")):
        return
    together = _together(stage)
    for operation in function.graph.get_operations():
        kind = next((kind for name, kind in _INNER.items() if operation.type.startswith(name)), None)
        elements = tf().get_static_value(operation.inputs[1]) if kind else None
        if elements is not None and int(elements) > 0:
            shapes, types = operation.get_attr("output_shapes"), operation.get_attr("output_types")
            spec = [tf().TensorSpec(*each) for each in zip(shapes, types)]
            yield _told(kind, together * int(elements), spec, UNTOLD)


_INNER = {"ShuffleDataset": SHUFFLE, "PrefetchDataset": FETCHED}


def _told(stage, elements, spec, rows):
    size = element_bytes(spec, rows)
    tensors = len(tf().nest.flatten(spec))
    return {"stage": stage, "elements": elements, "bytes": elements * (size + ELEMENT + TENSOR * tensors)}


def element_bytes(spec, rows):
    """Of an element that is told to be like that, where a first axis of no told length has so many `rows`."""
    total = 0
    for leaf in tf().nest.flatten(spec):
        # Of a sparse one nobody knows how much of it is there.
        shape = None if isinstance(leaf, tf().SparseTensorSpec) else getattr(leaf, "shape", None)
        dimensions = shape.as_list() if shape is not None and shape.rank is not None else [UNTOLD]
        count = 1
        for place, dimension in enumerate(dimensions):
            count *= dimension if dimension is not None else UNTOLD if place else rows
        dtype = getattr(leaf, "dtype", None)
        total += count * (STRING if dtype == tf().string else max(1, getattr(dtype, "size", None) or UNTOLD))
    return total


def _tensor_bytes(tensor):
    if tensor.dtype == tf().string:
        return STRING * int(np().prod(tensor.shape))
    return int(np().prod(tensor.shape)) * tensor.dtype.size


def _number(tensor):
    return int(tensor.numpy()) if hasattr(tensor, "numpy") else int(tensor)


def _text(tensor):
    return tensor.numpy() if hasattr(tensor, "numpy") else tensor
