"""What a tf.data pipeline holds in memory, stage by stage, read from the pipeline itself."""

from ..peak import processors
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
    return [told for stage in stages(dataset) if (told := _held(stage))]


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
    if "Shuffle" in name:
        size = _number(getattr(stage, "_buffer_size", 0))
        known = _number(sources[0].cardinality()) if sources else -1
        return _told(SHUFFLE, min(size, known) if known >= 0 else size, stage.element_spec)
    if "Cache" in name and not _text(getattr(stage, "_filename", b"")):
        return _told(CACHE, max(0, _number(stage.cardinality())), stage.element_spec)
    if "Prefetch" in name:
        ahead = _number(getattr(stage, "_buffer_size", AHEAD))
        return _told(FETCHED, ahead if ahead > 0 else AHEAD, stage.element_spec)
    if "ParallelInterleave" in name:
        return _told(WORKING, _number(getattr(stage, "_cycle_length", AHEAD)), stage.element_spec)
    if "Parallel" in name or "MapAndBatch" in name:
        calls = _number(getattr(stage, "_num_parallel_calls", AHEAD))
        return _told(WORKING, calls if calls > 0 else processors(), stage.element_spec)
    return None


def _told(stage, elements, spec):
    size = element_bytes(spec)
    tensors = len(tf().nest.flatten(spec))
    return {"stage": stage, "elements": elements, "bytes": elements * (size + ELEMENT + TENSOR * tensors)}


def element_bytes(spec):
    total = 0
    for leaf in tf().nest.flatten(spec):
        shape = getattr(leaf, "shape", None)
        dimensions = shape.as_list() if shape is not None and shape.rank is not None else [UNTOLD]
        count = 1
        for dimension in dimensions:
            count *= UNTOLD if dimension is None else dimension
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
