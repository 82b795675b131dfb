"""`keepfit.accumulate`: equal to the whole batch, in a tf.function and without."""

from __future__ import annotations

import numpy as np
import pytest

import keepfit

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


@pytest.fixture(scope="module")
def sentence_model():
    import keras

    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((7,), dtype="int32"), layers.Embedding(20, 5), layers.LSTM(4), layers.Dense(1)]
    )
    rng = np.random.default_rng(0)
    return model, rng.integers(0, 20, (22, 7)), rng.random((22, 1), dtype="float32")


def whole(loss_of, variables, *batch):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = loss_of(*batch)
    return loss, tape.gradient(loss, variables)


def dense(gradient):
    import tensorflow as tf

    return None if gradient is None else tf.convert_to_tensor(gradient).numpy()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("micro_batch", [None, 11, 5, 1, 22, 100])
def test_equal_to_the_whole_batch(sentence_model, micro_batch, compiled):
    """Sparse gradients stay sparse, None stays None, a ragged last part counts for what it is."""
    import tensorflow as tf

    model, x, y = sentence_model
    unused = tf.Variable(1.0)
    variables = [*(v.value for v in model.trainable_variables), unused]

    def loss_of(x, y):
        return tf.reduce_mean(tf.square(model(x, training=True) - y))

    def step(x, y):
        return keepfit.accumulate(loss_of, variables, x, y, micro_batch=micro_batch)

    step = tf.function(step) if compiled else step
    loss, gradients = step(tf.constant(x), tf.constant(y))
    expected_loss, expected = whole(loss_of, variables, tf.constant(x), tf.constant(y))
    assert float(loss) == pytest.approx(float(expected_loss), rel=1e-6)
    assert [type(g).__name__ for g in gradients] == [type(g).__name__ for g in expected]
    for one, other in zip(gradients, expected, strict=True):
        if other is not None:
            assert dense(one) == pytest.approx(dense(other), rel=1e-4, abs=1e-6)
    assert gradients[-1] is None


def test_weighed_by_what_is_valid():
    """A mean over unmasked tokens: the mean of the parts' means would be wrong."""
    import tensorflow as tf

    weight = tf.Variable([[0.3], [0.7]])
    x = tf.constant(np.random.default_rng(0).normal(size=(8, 3, 2)).astype("float32"))
    mask = tf.constant([[1, 1, 1]] * 3 + [[1, 0, 0]] * 5, tf.float32)

    def loss_of(x, mask):
        errors = tf.square(tf.squeeze(x @ weight, -1)) * mask
        count = tf.reduce_sum(mask)
        return tf.reduce_sum(errors) / count, count

    expected_loss, expected = whole(lambda *batch: loss_of(*batch)[0], [weight], x, mask)
    loss, gradients = keepfit.accumulate(loss_of, [weight], x, mask, micro_batch=3)
    assert float(loss) == pytest.approx(float(expected_loss), rel=1e-6)
    assert gradients[0].numpy() == pytest.approx(expected[0].numpy(), rel=1e-5)


def test_sums():
    import tensorflow as tf

    weight = tf.Variable(2.0)
    x = tf.range(7, dtype=tf.float32)
    loss, (gradient,) = keepfit.accumulate(
        lambda x: tf.reduce_sum(x * weight), [weight], x, micro_batch=3, reduction="sum"
    )
    assert (float(loss), float(gradient)) == (42.0, 21.0)


def test_control_flow_of_the_users_own():
    """AutoGraph converts the loss function as it would have outside."""
    import tensorflow as tf

    weight = tf.Variable(2.0)

    def loss_of(x):
        total = 0.0
        for value in x:
            if value > 2:
                total += value * weight
        return total / tf.cast(tf.shape(x)[0], tf.float32)

    @tf.function
    def step(x):
        return keepfit.accumulate(loss_of, [weight], x, micro_batch=2)

    loss, (gradient,) = step(tf.range(6, dtype=tf.float32))
    assert (float(loss), float(gradient)) == (4.0, 2.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"micro_batch": 0}, "micro_batch: a whole number from 1 was expected; received 0"),
        ({"micro_batch": "4"}, "received '4'"),
        ({"reduction": "average"}, "reduction: 'mean' or 'sum' was expected; received 'average'"),
    ],
)
def test_bad_input(options, words):
    import tensorflow as tf

    with pytest.raises(ValueError, match=words):
        keepfit.accumulate(lambda x: tf.reduce_mean(x), [], tf.zeros(3), **options)


def test_a_loss_that_is_no_scalar():
    import tensorflow as tf

    with pytest.raises(ValueError, match=r"a scalar was expected; received a tensor of shape \(2,\)"):
        keepfit.accumulate(lambda x: x, [], tf.zeros(2))


def test_without_keepfit_run_steps_and_guard_change_nothing():
    import tensorflow as tf

    data = tf.data.Dataset.range(6).batch(4)
    assert [batch.numpy().tolist() for batch in keepfit.steps(data, epochs=2)] == [[0, 1, 2, 3], [4, 5]] * 2
    assert int(keepfit.guard(lambda x: x + 1)(tf.constant(1))) == 2
    with pytest.raises(ValueError, match="epochs: a whole number from 1 was expected; received 0"):
        keepfit.steps(data, epochs=0)
