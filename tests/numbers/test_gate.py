"""Poison never reaches the weights: every case names its culprit, and leaves no trace.

Each model is trained twice: with a batch that holds poison, and without that batch. Weights, optimizer, statistics,
seeds, metrics and History must be the same, bit for bit.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from ..agent import splitting

pytestmark = pytest.mark.tensorflow
ROWS, BATCH = 40, 8
SAMPLE = 19  # in the third batch, row 3
ROW = SAMPLE % BATCH


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


@pytest.fixture
def float32_again():
    import keras

    yield
    keras.config.set_dtype_policy("float32")


# --- the zoo of poison ---------------------------------------------------------------------------------------


def table():
    data = np.random.RandomState(3)
    return data.rand(ROWS, 6).astype("float32") + 0.1, data.randint(0, 3, ROWS)


def layer_of(function, name):
    import keras

    class Own(keras.layers.Layer):
        def call(self, x):
            return function(x)

    return Own(name=name)


def net(*before, out=3):
    import keras

    layers = keras.layers
    return keras.Sequential([*before, layers.Dense(8, name="hidden"), layers.Dropout(0.3), layers.Dense(out)])


def logits():
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def nan_feature():
    x, y = table()
    x[SAMPLE, 3] = np.nan
    return net(), x, y, {"phase": "input", "entry": [3], "name": "x", "value": "nan"}


def inf_label():
    x, _ = table()
    y = x[:, :1].copy()
    y[SAMPLE] = np.inf
    return net(out=1), x, y, {"phase": "target", "name": "y", "value": "inf"}


def log_of_zero():
    from keras import ops

    x, y = table()
    x[SAMPLE] = 0
    return net(layer_of(ops.log, "logarithm")), x, y, {"phase": "forward", "layer": "logarithm", "op": "Log"}


def zero_by_zero():
    from keras import ops

    x, y = table()
    x[SAMPLE] = 0
    ratio = layer_of(lambda t: t / ops.sum(t, axis=-1, keepdims=True), "ratio")
    return net(ratio), x, y, {"phase": "forward", "layer": "ratio", "op": "RealDiv"}


def slope_of_the_root():
    import keras
    from keras import ops

    x, y = table()
    x[SAMPLE] = 0
    first = keras.layers.Dense(4, use_bias=False, kernel_initializer="ones", name="first")
    model = net(first, layer_of(ops.sqrt, "root"))
    return model, x, y, {"phase": "backward", "layer": "root", "op": "SqrtGrad"}


def exp_overflows():
    from keras import ops

    x, y = table()
    x[SAMPLE] = 200
    return net(layer_of(ops.exp, "power")), x, y, {"phase": "forward", "layer": "power", "op": "Exp"}


def loss_of_its_own():
    import keras
    from keras import ops

    x, y = table()
    x[SAMPLE] = 0

    def loss(y_true, y_pred):
        return -ops.log(y_pred)

    model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name="only")])
    return model, x, y, {"phase": "loss", "op": "Log", "loss": loss}


def hidden_by_relu():
    """The forward pass is finite: max(NaN, 0) may be 0. Only the gradient shows it."""
    import keras

    x, y = table()
    x[SAMPLE, 0] = np.nan
    return net(keras.layers.Dense(5), keras.layers.ReLU()), x, y, {"phase": "input", "entry": [0]}


def normalised():
    import keras

    x, y = table()
    x[SAMPLE, 5] = np.inf
    return net(keras.layers.BatchNormalization()), x, y, {"phase": "input", "entry": [5], "value": "inf"}


def masked_away():
    """Every sample's logarithm is -inf, and is taken away again, but for one of them: of the first class."""
    import keras
    from keras import ops

    x, y = table()
    y = np.where(np.arange(ROWS) == SAMPLE, 0, 1 + y % 2)

    def loss(y_true, y_pred):
        first = ops.cast(ops.equal(ops.reshape(y_true, (-1,)), 0), "float32")
        nothing = ops.log(ops.relu(-ops.square(y_pred[:, 0])))
        return ops.where(first > 0, ops.stop_gradient(nothing), 0.0) + ops.mean(ops.square(y_pred), axis=-1)

    model = keras.Sequential([keras.layers.Dense(3, name="only")])
    return model, x, y, {"phase": "loss", "loss": loss}


def attention_masked_with_infinity():
    """A softmax over -inf is well; one sample has nothing to attend to at all: 0 by 0."""
    from keras import ops

    x, y = table()
    x[:, 3:] = 0
    x[SAMPLE] = 0

    def attend(t):
        return t * ops.softmax(ops.where(t > 0, t, -float("inf")), axis=-1)

    return net(layer_of(attend, "attention")), x, y, {"phase": "forward", "layer": "attention", "op": "Softmax"}


def own_train_step():
    import keras
    import tensorflow as tf

    x, y = table()
    x[SAMPLE, 2] = np.nan

    class Own(keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                predictions = self(x, training=True)
                loss = self.compute_loss(x=x, y=y, y_pred=predictions)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, predictions)
            return {metric.name: metric.result() for metric in self.metrics}

    layers = keras.layers
    model = Own([layers.BatchNormalization(), layers.Dense(8), layers.Dense(3)])
    return model, x, y, {"phase": "input", "entry": [2]}


CASES = [
    nan_feature, inf_label, log_of_zero, zero_by_zero, slope_of_the_root, exp_overflows, loss_of_its_own,
    hidden_by_relu, normalised, masked_away, attention_masked_with_infinity, own_train_step,
]  # fmt: skip


# --- training ------------------------------------------------------------------------------------------------


class Poisoned:
    def __init__(self, case, rows=0, policy="float32", **compiled):
        import keras

        self.heart, self.guard = splitting.gated()
        self.heart.counsel = self.guard.counsel = splitting.Scripted()
        self.heart.counsel.rows = rows
        self.heart.counsel.limit = 1 << 40 if rows else 0
        self.guard.numbers = splitting.watching(self.heart, self.guard)
        self.heart.failures.clear()
        self.heart.journal.events.clear()
        self.case, self.compiled = case, compiled
        keras.backend.clear_session()
        keras.config.set_dtype_policy(policy)

    def fit(self, without=False, epochs=2):
        import keras

        keras.utils.set_random_seed(5)
        model, x, y, told = self.case()
        loss = told.pop("loss", None) or (logits() if y.dtype.kind == "i" else "mse")
        metrics = ["accuracy"] if y.dtype.kind == "i" else ["mae"]
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=metrics, **self.compiled)
        if without:
            kept = np.r_[0 : BATCH * (SAMPLE // BATCH), BATCH * (SAMPLE // BATCH + 1) : ROWS]
            x, y = x[kept], y[kept]
        history = model.fit(x, y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0).history
        self.guard.numbers.look()
        assert not self.heart.failures, self.heart.failures
        variables = [*model.variables, *model.optimizer.variables]
        return {f"{i} {v.path}": v.numpy() for i, v in enumerate(variables)}, history, told

    def reports(self):
        return self.heart.journal.reports("numbers-poison")


def same(one, other):
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes(), name


def check(case, rows=0, **compiled):
    poisoned = Poisoned(case, rows, **compiled)
    variables, history, told = poisoned.fit()
    reports = poisoned.reports()
    plain, plain_history, _ = Poisoned(case, rows, **compiled).fit(without=True)
    same(variables, plain)
    assert history == plain_history
    assert len(reports) == 2, "once an epoch"
    report = reports[0]
    assert report["rows"] == [ROW] and not report["every"], report
    assert {key: report.get(key) for key in told} == told
    assert report["did"] == "skip"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_culprit_is_named_and_leaves_no_trace(case):
    check(case)


@pytest.mark.parametrize(
    ("case", "compiled"),
    [
        (normalised, {"jit_compile": True}),
        (log_of_zero, {"jit_compile": True}),
        (nan_feature, {"steps_per_execution": 8}),
        (normalised, {"steps_per_execution": 2, "jit_compile": True}),
        (slope_of_the_root, {"run_eagerly": True}),
        (own_train_step, {"jit_compile": True}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "-".join(value),
)
def test_however_the_step_is_compiled(case, compiled):
    check(case, **compiled)


@pytest.mark.parametrize("case", [nan_feature, log_of_zero, slope_of_the_root], ids=lambda case: case.__name__)
def test_in_micro_batches(case):
    check(case, rows=2)


def overflowing_half():
    """float16 goes to 65504: the forward pass of one sample overflows, which no loss scale can cure."""
    import keras

    x, y = table()
    x[SAMPLE] = 60000
    model = keras.Sequential([keras.layers.Dense(4, kernel_initializer="ones", name="halves"), keras.layers.Dense(3)])
    return model, x, y, {"phase": "forward", "layer": "halves"}


def test_half_precision_overflows_in_the_forward_pass(float32_again):
    poisoned = Poisoned(overflowing_half, policy="mixed_float16")
    variables, _, told = poisoned.fit()
    reports = poisoned.reports()
    plain, _, _ = Poisoned(overflowing_half, policy="mixed_float16").fit(without=True)
    same(variables, plain)
    assert reports[0]["rows"] == [ROW]
    assert {key: reports[0].get(key) for key in told} == told


def test_an_overflow_that_the_loss_scale_handles_is_no_event(float32_again):
    """A scale so large that gradients overflow: Keras lowers it, as it would alone."""

    def large_targets():
        x, _ = table()
        return net(out=1), x * 100, x[:, :1] * 100, {}

    poisoned = Poisoned(large_targets, policy="mixed_float16")
    variables, history, _ = poisoned.fit()
    scale = next(value for name, value in variables.items() if "dynamic_scale" in name)
    assert scale < 2.0**15, "nothing overflowed: the case does not show what it should"
    assert not poisoned.reports() and all(math.isfinite(loss) for loss in history["loss"])


def test_too_high_a_learning_rate_leaves_finite_weights():
    import keras

    poisoned = Poisoned(nan_feature)
    x, _ = table()
    layers = keras.layers
    model = keras.Sequential(
        [layers.Dense(32, activation="relu"), layers.Dense(32, activation="relu"), layers.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(10.0), "mse")
    model.fit(x, x[:, :1], batch_size=BATCH, epochs=4, verbose=0)
    poisoned.guard.numbers.look()
    reports = poisoned.reports()
    assert reports and reports[0]["every"] and reports[0]["loss_grew"] > 1000
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_an_exploding_recurrence_is_named():
    import keras

    poisoned = Poisoned(nan_feature)
    x = np.random.RandomState(0).rand(16, 80, 4).astype("float32")
    cell = keras.layers.SimpleRNN(
        8, activation=None, recurrent_initializer=keras.initializers.Orthogonal(gain=20.0), name="recurrent"
    )
    model = keras.Sequential([cell, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, x[:, 0, :1], batch_size=8, verbose=0)
    poisoned.guard.numbers.look()
    report = poisoned.reports()[0]
    assert report["phase"] == "forward" and report["every"] and "simple_rnn_cell" in report["layer"]


def test_validation_is_named_and_left_as_keras_has_it():
    import keras

    poisoned = Poisoned(nan_feature)
    x, y = table()
    bad = x.copy()
    bad[SAMPLE, 1] = np.nan
    model = net()
    model.compile("sgd", logits())
    history = model.fit(x, y, validation_data=(bad, y), validation_batch_size=BATCH, verbose=0).history
    poisoned.guard.numbers.look()
    (report,) = poisoned.reports()
    assert report["step"] == "test" and report["phase"] == "input" and report["entry"] == [1]
    assert math.isnan(history["val_loss"][0]) and math.isfinite(history["loss"][0])
    assert keras.__version__


@pytest.mark.parametrize("compiled", [False, True, "jit"], ids=["eager", "function", "jit"])
def test_a_loop_of_ones_own_keeps_its_weights(compiled):
    import keras
    import tensorflow as tf

    poisoned = Poisoned(nan_feature)
    x, y = table()
    x[SAMPLE, 0] = np.nan
    model = net()
    model.build((None, 6))
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    loss_of = logits()

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    run = tf.function(step, jit_compile=compiled == "jit") if compiled else step
    for start in range(0, ROWS, BATCH):
        before = [v.numpy().tobytes() for v in (*model.trainable_variables, *optimizer.variables)]
        run(tf.constant(x[start : start + BATCH]), tf.constant(y[start : start + BATCH]))
        after = [v.numpy().tobytes() for v in (*model.trainable_variables, *optimizer.variables)]
        assert (before == after) == (start <= SAMPLE < start + BATCH)
    poisoned.guard.numbers.look()
    assert [report["count"] for report in poisoned.heart.journal.reports("numbers-loop")]


@pytest.mark.parametrize("compiled", [{}, {"run_eagerly": True}], ids=["compiled", "eager"])
def test_one_batch_at_a_time(compiled):
    poisoned = Poisoned(nan_feature, **compiled)
    model, x, y, _ = nan_feature()
    model.compile("adam", logits(), **compiled)
    for start in range(0, ROWS, BATCH):
        model.train_on_batch(x[start : start + BATCH], y[start : start + BATCH])
    poisoned.guard.numbers.look()
    assert not poisoned.heart.failures, poisoned.heart.failures
    assert all(np.isfinite(variable.numpy()).all() for variable in model.variables)
    (report,) = poisoned.reports()
    assert report["rows"] == [ROW]


def test_norms_of_the_last_steps_are_remembered():
    import keras
    import tensorflow as tf

    poisoned = Poisoned(nan_feature)
    x, _ = table()
    model = keras.Sequential([keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(x, x[:, :1], batch_size=ROWS, epochs=3, shuffle=False, verbose=0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - x[:, :1]) ** 2)
    norm = float(tf.norm(tape.gradient(loss, model.trainable_variables)[0]))
    losses, norms = poisoned.guard.gate.watched(model).recent()
    assert losses == pytest.approx([float(loss)] * 3, rel=1e-5) and norms == pytest.approx([norm] * 3, rel=1e-5)


def test_an_error_of_the_users_stays_the_users():
    """Its first trace fails while the batch is being estimated; the next call must fail as plain Keras does."""
    poisoned = Poisoned(nan_feature)
    poisoned.heart.counsel.limit = 1 << 40
    x, _ = table()
    model = net()
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    with pytest.raises(ValueError, match=r"[Ss]hape"):
        model.fit(x, np.ones((ROWS, 7)), batch_size=BATCH, verbose=0)
