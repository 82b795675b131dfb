"""Variables of every kind go to disk and come back, and a snapshot is not touched by what trains on."""

from __future__ import annotations

import multiprocessing
import shutil

import pytest

from keepfit.blackbox.states import Manifest, Vault

pytestmark = pytest.mark.tensorflow
GIB = 1 << 30


@pytest.fixture(autouse=True)
def tf(needs):
    needs("tensorflow")
    import tensorflow

    return tensorflow


def saved(vault, named, copied=True, then=lambda: None):
    """A generation of these variables, with something happening between the copy and the writing."""
    from keepfit.agent.tensorflow.snapshot import Beside, Snapshot

    snapshot = Snapshot(Manifest(number=0, fit=1), named, Beside(), {})
    if copied:
        snapshot.copy()
        then()
    snapshot.write(vault.draft(1, snapshot.bytes))
    return vault.generations()[-1]


def restored(generation, named):
    from keepfit.agent.tensorflow.snapshot import Reader

    generation.verified()
    reader = Reader(generation)
    assert reader.misfit(named) is None
    reader.put(named)
    reader.close()


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]
)
def test_every_type_comes_back_to_the_bit(tmp_path, tf, dtype):
    import numpy as np

    bits = np.random.RandomState(0).randint(0, 2, 24).astype("uint8")
    values = tf.cast(tf.constant(bits.reshape(4, 6)), dtype)
    variables = [tf.Variable(values), tf.Variable(tf.cast(1, dtype)), tf.Variable(tf.cast(tf.zeros((0, 3)), dtype))]
    named = [(f"same name/{index}", variable) for index, variable in enumerate(variables)]
    wanted = [variable.numpy().tobytes() for variable in variables]
    generation = saved(Vault(tmp_path), named)
    for variable in variables:
        variable.assign(tf.zeros_like(variable))
    restored(generation, named)
    assert [variable.numpy().tobytes() for variable in variables] == wanted


def test_what_trains_on_does_not_reach_the_snapshot(tmp_path, tf):
    """The copy is made by TensorFlow, when it next writes: by plain assignments, in place, sparsely and by XLA."""
    variable = tf.Variable(tf.ones((1000, 50)))

    @tf.function(jit_compile=True)
    def compiled():
        variable.assign(variable * 2.0 + 1.0)

    def trains():
        variable.assign_add(tf.ones((1000, 50)))
        variable.scatter_nd_update([[3]], [[7.0] * 50])
        compiled()
        variable.assign(tf.zeros((1000, 50)))

    generation = saved(Vault(tmp_path), [("v", variable)], then=trains)
    assert float(tf.reduce_sum(variable)) == 0.0
    restored(generation, [("v", variable)])
    assert float(tf.reduce_min(variable)) == float(tf.reduce_max(variable)) == 1.0


def test_ten_thousand_tiny_variables(tmp_path, tf):
    named = [(f"model/{index:05d}/same", tf.Variable(float(index))) for index in range(10_000)]
    generation = saved(Vault(tmp_path), named)
    for _, variable in named:
        variable.assign(-1.0)
    restored(generation, named)
    assert all(float(variable) == index for index, (_, variable) in enumerate(named))


def test_a_variable_of_more_than_two_gigabytes(tmp_path):
    if shutil.disk_usage(tmp_path).free < 6 * GIB:
        pytest.skip("needs 6 GiB of disk")
    with open("/proc/meminfo") as file:
        available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    if available < 10 * GIB:
        pytest.skip("needs 10 GiB of memory")
    alone = multiprocessing.get_context("spawn").Process(target=_of_more_than_two_gigabytes, args=(tmp_path,))
    alone.start()  # a process of its own: TensorFlow's pool keeps what it took
    alone.join()
    assert alone.exitcode == 0
    shutil.rmtree(tmp_path)


def _of_more_than_two_gigabytes(folder):
    import tensorflow as tf

    variable = tf.Variable(tf.zeros((2_200_000_000,), tf.int8))
    variable[-1].assign(5)
    generation = saved(Vault(folder), [("big", variable)], copied=False)
    variable.assign(tf.zeros((2_200_000_000,), tf.int8))
    restored(generation, [("big", variable)])
    assert int(variable[-1]) == 5


def test_a_change_of_shape_is_said_in_words(tmp_path, tf):
    from keepfit.agent.tensorflow.snapshot import Reader

    generation = saved(Vault(tmp_path), [("kernel", tf.Variable(tf.zeros((3, 4))))])
    found = Reader(generation).misfit([("kernel", tf.Variable(tf.zeros((3, 5))))])
    assert found == "kernel: (3, 5) F32 where (3, 4) F32 was saved"


def test_buffers_that_do_not_fit_twice_are_filled_again_instead(tf):
    from keepfit.agent.tensorflow import buffers, position

    rows = tf.data.Dataset.from_tensor_slices(tf.zeros((100, 4)))
    shuffled = rows.shuffle(50).batch(8).prefetch(2)
    each = buffers.ELEMENT + buffers.TENSOR
    assert buffers.kept(shuffled) == 50 * (4 * 4 + each) + 2 * (8 * 4 * 4 + each)
    assert buffers.kept(rows.cache().repeat(2)) == 100 * (4 * 4 + each)
    saver = position.Saver(shuffled)
    held = saver.bytes
    assert saver.take(iter(shuffled), lambda size: size <= held) is not None
    assert saver.take(iter(shuffled), lambda size: size < held) is None and saver.how == position.REPLAY
    with pytest.raises(position.NoRoom):
        position.Saver(shuffled, ordered_once=True).take(iter(shuffled), lambda size: False)


def test_no_state_is_written_of_weights_that_are_not_finite(tmp_path, tf):
    from keepfit.agent.tensorflow.snapshot import NotFinite

    weights = tf.Variable([1.0, float("nan")])
    mask = tf.Variable([0.0, float("-inf")], trainable=False)
    huge = tf.Variable([3e38, 3e38])  # their sum is not finite, they are
    saved(Vault(tmp_path / "good"), [("model/0", mask), ("model/1", huge)])
    with pytest.raises(NotFinite, match="model/1 is not finite"):
        saved(Vault(tmp_path / "bad"), [("model/0", mask), ("model/1", weights)])
