"""What a graph keeps alive at its peak, of graphs small enough to be counted by hand."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow
ROWS, WIDTH, TIME = 100, 64, 20
ONE = 4 * ROWS * WIDTH  # bytes of one tensor


@pytest.fixture(autouse=True)
def tf(needs):
    needs("tensorflow")
    import tensorflow

    return tensorflow


def peak(tf, step, *shape, rows=ROWS, dtype=None):
    from keepfit.agent.tensorflow import liveness

    spec = tf.TensorSpec(shape, dtype or tf.float32)
    graph = tf.function(step).get_concrete_function(spec).graph
    return liveness.peak_bytes(graph, {}, ROWS, rows)


def test_a_tensor_lives_until_its_last_reader(tf):
    def step(x):
        early = tf.cumsum(x)
        late = tf.cumsum(early)
        return tf.reduce_sum(early * late)  # in place of one of them

    assert peak(tf, step, ROWS, WIDTH) == pytest.approx(2 * ONE, rel=0.01)
    assert peak(tf, step, None, WIDTH, rows=3 * ROWS) == pytest.approx(6 * ONE, rel=0.01)


def test_to_ask_for_a_shape_keeps_nothing(tf):
    def step(x):
        first = tf.cumsum(x)
        second = tf.cumsum(first)
        third = tf.cumsum(second)
        return tf.cumsum(third), tf.shape(first), tf.shape(second)

    assert peak(tf, step, None, WIDTH) == pytest.approx(2 * ONE, rel=0.01)


def test_rows_and_time_in_one_axis_are_as_long_as_both(tf):
    kernel = tf.ones([WIDTH, 2 * WIDTH])

    def step(x):  # as a dense layer over sequences does it
        flat = tf.reshape(tf.cumsum(x), [-1, WIDTH])
        return tf.reduce_sum(tf.sigmoid(tf.matmul(flat, kernel)))

    known, unknown = peak(tf, step, ROWS, TIME, WIDTH), peak(tf, step, None, TIME, WIDTH)
    assert known == unknown == pytest.approx(3 * TIME * ONE, rel=0.01)


def test_what_a_loop_keeps_for_the_way_back_lives_until_then(tf):
    import keras

    layers = [keras.layers.LSTM(WIDTH, return_sequences=True), keras.layers.LSTM(WIDTH)]
    model = keras.Sequential([keras.Input((TIME, WIDTH)), *layers])

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True))
        return tape.gradient(loss, model.trainable_variables)

    whole = peak(tf, step, None, TIME, WIDTH)
    of_a_turn = 7  # four gates, the cell, its tanh and the output
    assert 2 * of_a_turn * TIME * ONE < whole < 3 * of_a_turn * TIME * ONE
    assert peak(tf, step, None, TIME, WIDTH, rows=2 * ROWS) == pytest.approx(2 * whole, rel=0.15)


def test_a_training_step_needs_the_same_whether_its_rows_are_known_or_not(tf):
    import keras

    words = keras.Input((TIME,), dtype="int32")
    x = keras.layers.Embedding(50, WIDTH)(words)
    x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 32)(x, x))
    model = keras.Model(words, keras.layers.Dense(4 * WIDTH, activation="gelu")(x))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x, training=True))
        return tape.gradient(loss, model.trainable_variables)

    known, unknown = (peak(tf, step, rows, TIME, dtype=tf.int32) for rows in (ROWS, None))
    assert known == pytest.approx(unknown, rel=0.1)
