"""What a tf.data pipeline holds is read from the pipeline: its buffers, those of pipelines inside it, and its work."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow
WIDTH = 1000
SIZE = 4 * WIDTH  # bytes of an element, less its bookkeeping


@pytest.fixture(autouse=True)
def tf(needs):
    needs("tensorflow")
    import tensorflow

    return tensorflow


@pytest.fixture
def rows(tf):
    return lambda count: tf.data.Dataset.range(count).map(lambda n: tf.fill([WIDTH], tf.cast(n, tf.float32)))


def told(dataset):
    from keepfit.agent.tensorflow import buffers

    return {each["stage"]: (each["elements"], each["bytes"]) for each in buffers.of(dataset)}


def near(size, expected):
    return expected <= size < 1.1 * expected


def test_a_buffer_holds_no_more_than_there_is(rows):
    dataset = rows(50).shuffle(1000).prefetch(90)
    (shuffled, shuffle), (ahead, prefetch) = told(dataset)["shuffle"], told(dataset)["prefetch"]
    assert (shuffled, ahead) == (50, 50) and near(shuffle, 50 * SIZE) and near(prefetch, 50 * SIZE)


def test_batches_have_the_rows_that_they_are_made_with(rows):
    elements, size = told(rows(1000).batch(8).map(lambda x: x + 1).shuffle(20))["shuffle"]
    assert elements == 20 and near(size, 20 * 8 * SIZE)


def test_pipelines_inside_a_pipeline_count_as_often_as_they_are_open(tf, rows):
    dataset = tf.data.Dataset.range(16).interleave(lambda n: rows(300).shuffle(30), cycle_length=4)
    elements, size = told(dataset)["shuffle"]
    assert elements == 4 * 30 and near(size, 120 * SIZE)


def test_what_a_parallel_map_works_on_is_more_than_what_it_makes(tf, rows):
    dataset = rows(100).map(lambda x: tf.reduce_sum(tf.tile(x, [64])), num_parallel_calls=4)
    elements, size = told(dataset)["working"]
    assert elements == 4 and size >= 4 * 64 * SIZE


def test_a_cache_in_a_file_holds_nothing(rows, tmp_path):
    assert told(rows(10).cache())["cache"][0] == 10
    assert "cache" not in told(rows(10).cache(str(tmp_path / "kept")))


def test_an_unknown_number_of_elements_is_never_negative(tf, rows):
    endless = rows(10).filter(lambda x: x[0] > 0)  # how many, it does not tell
    everything = endless.shuffle(endless.cardinality())
    assert told(everything)["shuffle"] == (0, 0)
    chosen = tf.data.Dataset.range(4).interleave(lambda n: rows(30).shuffle(5), cycle_length=tf.data.AUTOTUNE)
    elements, size = told(chosen)["shuffle"]
    assert elements > 0 and size > 0 and elements % 5 == 0


def test_sparse_elements_count_as_something(tf, rows):
    sparse = rows(40).map(tf.sparse.from_dense).shuffle(10)
    elements, size = told(sparse)["shuffle"]
    assert elements == 10 and size > 0
