"""How many bytes of data a training holds, whatever it comes in."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def tf(needs):
    needs("tensorflow")
    import tensorflow

    return tensorflow


def held(*arrays):
    from keepfit.agent.keras.holdings import held_by_arrays

    return held_by_arrays(arrays)[1]


def test_an_array_that_is_both_given_and_wanted_is_there_once():
    x = np.zeros((10, 100), "float32")
    assert held(x, x) == x.nbytes and held(x, x.copy()) == 2 * x.nbytes


def test_what_lies_in_a_file_is_not_in_memory(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((10, 100), "float32"))
    assert held(np.load(tmp_path / "x.npy", mmap_mode="r")) == 0


def test_batches_that_are_no_plain_tensors(tf):
    from keepfit.agent.keras.holdings import _bytes

    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    ragged = tf.ragged.constant([[1, 2, 3], [4]], dtype=tf.int32)
    sparse = tf.sparse.from_dense(tf.constant([[0.0, 2.0], [0.0, 0.0]]))
    assert _bytes(ragged) == 4 * 4
    assert _bytes(sparse) == 4 + 2 * 8
    assert _bytes(pandas.DataFrame({"a": np.zeros(8), "b": np.zeros(8, "float32")})) == 8 * 8 + 8 * 4
