"""Which files a pipeline leaves out: told only where the pipeline is sure to come to every one of them."""

import pytest


@pytest.fixture
def tf(needs):
    needs("tensorflow")
    import tensorflow

    return tensorflow


def left_out(tf, between=lambda names: names, ended=lambda: False):
    from keepfit.agent.tensorflow import damaged

    names = between(tf.data.Dataset.from_tensor_slices(["1", "bad", "2"]))
    return damaged.left_out(names.map(tf.strings.to_number).batch(2), ended)


def test_a_file_that_fails_is_named(tf):
    shuffled = lambda names: names.shuffle(3).cache().repeat(2).prefetch(1)  # noqa: E731
    assert left_out(tf) == left_out(tf, shuffled) == {"files": ["bad"], "checked": 3, "of": 3}


def test_what_may_never_be_read_is_not_said_to_be_left_out(tf):
    assert left_out(tf, lambda names: names.filter(lambda name: name != "bad")) is None
    assert left_out(tf, lambda names: names.take(1)) is None
    assert left_out(tf, lambda names: names.shard(2, 0)) is None


def test_it_stops_when_the_program_ends(tf):
    assert left_out(tf, ended=lambda: True) == {"files": [], "checked": 1, "of": 3}
