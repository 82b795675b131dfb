"""Variables out of the framework and back in, bit for bit.

Reading a variable gives its buffer, not a copy: TensorFlow copies when it next writes to one that somebody
still holds. So taking a snapshot costs the step almost nothing, and the copy is made only where it is needed.
"""

from ...blackbox.safetensors import SIZES, Slot
from .parts import np, tf

_NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "float8_e5m2": "F8_E5M2", "float8_e4m3fn": "F8_E4M3",
    "uint16": "U16", "int16": "I16", "float16": "F16", "bfloat16": "BF16", "uint32": "U32", "int32": "I32",
    "float32": "F32", "uint64": "U64", "int64": "I64", "float64": "F64",
}  # fmt: skip
_TYPES = {name: kind for kind, name in _NAMES.items()}


def dtype_name(dtype):
    """As the file calls it; None for what it cannot hold (strings, complex numbers, resources)."""
    name = getattr(dtype, "name", None) or str(dtype)
    return _NAMES.get(name)


def slot_of(name, variable):
    return Slot(name, dtype_name(variable.dtype), tuple(int(d) for d in variable.shape))


def read(variable):
    """Its value now, as a tensor that shares the variable's memory until one of them is written to."""
    value = getattr(variable, "value", variable)
    value = value() if callable(value) else value
    return value.read_value() if hasattr(value, "read_value") else tf().convert_to_tensor(value)


def content(tensor):
    """The bytes of a tensor or an array, without a copy where that can be."""
    array = tensor._numpy() if hasattr(tensor, "_numpy") else tensor
    array = np().ascontiguousarray(array)
    return array.reshape(-1).view(np().uint8)


def is_finite(tensor):
    """Whether all of a float tensor is. The sum tells it in one pass; only where that overflows it takes a second."""
    array = tensor._numpy() if hasattr(tensor, "_numpy") else tensor
    if getattr(array, "dtype", None) is None or array.dtype.kind not in "fV" or not array.size:
        return True
    with np().errstate(all="ignore"):
        return bool(np().isfinite(array.sum())) or bool(np().isfinite(array).all())


def array_of(slot, content):
    kind = _TYPES[slot.dtype]
    dtype = np().dtype(kind) if kind in np().sctypeDict else np().dtype(tf().as_dtype(kind).as_numpy_dtype)
    return np().frombuffer(content, dtype=dtype).reshape(slot.shape)


def holdable(dtype):
    return dtype_name(dtype) in SIZES
