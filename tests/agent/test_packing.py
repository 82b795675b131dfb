"""Plain data comes back as it went, to the bit and to the type."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepfit.agent.packing import Unpackable, pack, unpack

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


def there_and_back(value):
    kept = {}

    def keep(array):
        kept[str(len(kept))] = array
        return str(len(kept) - 1)

    text = json.dumps(pack(value, keep), allow_nan=False)
    return unpack(json.loads(text), kept.__getitem__)


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b


@given(plain)
def test_plain_data(value):
    assert same(there_and_back(value), value)


def test_arrays_and_numpy_numbers():
    numpy = pytest.importorskip("numpy")
    value = {"best": numpy.float32(0.1), "weights": [numpy.arange(3), numpy.zeros((2, 0))], "names": numpy.array(["a"])}
    back = there_and_back(value)
    assert type(back["best"]) is numpy.float32 and back["best"] == value["best"]
    assert (back["weights"][0] == value["weights"][0]).all() and back["weights"][1].shape == (2, 0)
    assert back["names"].dtype == value["names"].dtype


@pytest.mark.parametrize("value", [object(), lambda: 1, {"a": [open]}])
def test_what_is_no_data_is_refused(value):
    with pytest.raises(Unpackable):
        there_and_back(value)
