"""The guard: it measures without a trace, refuses what it cannot split, and never stands in the way."""

from __future__ import annotations

import numpy as np
import pytest

from . import cases, splitting
from .splitting import BATCH, ROWS, Trained

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


def normalised_and_dropped():
    keras = cases._keras()
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(3)]
    )
    return cases._fit(model, metrics=["accuracy"])


def shuffled_dataset():
    import tensorflow as tf

    model, _ = normalised_and_dropped()
    x, y = cases._table()
    return model, {"x": tf.data.Dataset.from_tensor_slices((x, y)).shuffle(ROWS, seed=5).batch(BATCH)}


def identical(one: splitting.Result, other: splitting.Result) -> None:
    for name in ("weights", "optimizer"):
        for key, value in getattr(one, name).items():
            assert np.array_equal(value, getattr(other, name)[key]), f"{name}: {key}"
    assert one.history == other.history


@pytest.mark.parametrize("case", [normalised_and_dropped, shuffled_dataset, cases.masked_sequence, cases.py_dataset])
def test_measuring_leaves_no_trace(case):
    """Weights, seeds, statistics, metrics and the position in the data: as if nothing had been measured."""
    measured = Trained(case, rows=4, trials=(2, 3))
    straight = Trained(case, rows=4)
    one = _with(measured, lambda: measured.fit())
    other = _with(straight, lambda: straight.fit())
    assert [facts["rows"] for facts in measured.counsel.told("tried")] == [2, 3]
    assert all(facts["peak"] > 0 and facts["seconds"] > 0 for facts in measured.counsel.told("tried"))
    identical(one, other)


def _with(trained: Trained, act):
    trained.heart.counsel = trained.guard.counsel = trained.counsel
    return act()


@pytest.mark.parametrize("case", [normalised_and_dropped, shuffled_dataset, cases.several_steps_an_execution])
def test_what_fits_is_left_alone(case):
    """Bit for bit plain Keras, with the same number of traces, and nothing of ours left in the step."""
    looked_at = Trained(case)
    alone = Trained(case)
    alone.counsel.limit = 0
    one = _with(looked_at, lambda: looked_at.fit())
    assert looked_at.counsel.told("batch") and not looked_at.counsel.told("splitting")
    assert type(looked_at.model.train_function).__name__ == "function"
    other = _with(alone, lambda: alone.fit())
    identical(one, other)


@pytest.mark.parametrize(
    "case", [cases.masked_sequence, cases.frozen_part, cases.unused_weights, cases.unbuilt_model, cases.compiled_by_xla]
)
def test_a_lean_attempt_learns_from_the_split_step_alone(case, monkeypatch):
    """The whole batch is not traced; gradients that are sparse, or that are none, are found out on the way."""
    whole = _with(trained := Trained(case), trained.fit)
    monkeypatch.setattr(splitting.guarded()[1], "lean", True)
    lean = Trained(case, rows=4, trials=(2, 3))
    split = _with(lean, lean.fit)
    assert lean.counsel.told("batch")[0]["estimate"] is None
    assert lean.counsel.told("tried")[0]["estimate"]["whole"] > 0
    for name in ("weights", "optimizer", "history"):
        difference, where = splitting.largest_difference(getattr(whole, name), getattr(split, name))
        assert difference <= 5e-5, f"{name}: {where} differs by {difference:.2g}"


def contrastive():
    keras = cases._keras()

    def loss(y_true, y_pred):
        pairs = keras.ops.matmul(y_pred, keras.ops.transpose(y_pred))
        return keras.ops.logsumexp(pairs, axis=1)

    return cases._fit(cases._dense(), loss=loss)


def dice_over_the_batch():
    keras = cases._keras()
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, activation="sigmoid")])
    x, y = cases._table()
    return cases._fit(model, loss=keras.losses.Dice(), data=(x, (y[:, None] > 0).astype("float32")))


def own_train_step():
    keras = cases._keras()

    class Model(keras.Sequential):
        def train_step(self, data):
            return super().train_step(data)

    return cases._fit(Model([keras.Input((6,)), keras.layers.Dense(3)]))


def stateful_layer():
    keras = cases._keras()
    layers = keras.layers
    model = keras.Sequential([keras.Input((4, 2), batch_size=11), layers.LSTM(3, stateful=True), layers.Dense(3)])
    model.compile("adam", cases._crossentropy())
    return model, {"x": np.zeros((22, 4, 2), "float32"), "y": np.zeros(22, "int32")}


def samples_mixed_in_the_model():
    keras = cases._keras()

    class Mixing(keras.layers.Layer):
        def call(self, x):
            return x - keras.ops.mean(x, axis=0)

    return cases._fit(keras.Sequential([keras.Input((6,)), Mixing(), keras.layers.Dense(3)]))


def inputs_of_different_rows():
    import tensorflow as tf

    keras = cases._keras()

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(3)

        def call(self, inputs):
            return self.head(inputs["x"]) + keras.ops.sum(inputs["table"])

    x, y = cases._table()
    batches = [({"x": x[:9], "table": np.ones((4, 2), "float32")}, y[:9])] * 2

    def generate():
        yield from batches

    signature = (
        {"x": tf.TensorSpec((None, 6)), "table": tf.TensorSpec((4, 2))},
        tf.TensorSpec((None,), tf.int64),
    )
    model = Model()
    model.compile("adam", cases._crossentropy())
    return model, {"x": tf.data.Dataset.from_generator(generate, output_signature=signature)}


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (contrastive, "coupled"),
        (dice_over_the_batch, "coupled"),
        (samples_mixed_in_the_model, "coupled"),
        (own_train_step, "own-step"),
        (stateful_layer, "fixed-batch"),
        (inputs_of_different_rows, "data"),
    ],
)
def test_what_cannot_be_split_is_told_and_left_alone(case, kind):
    trained, alone = Trained(case, rows=3), Trained(case)
    alone.counsel.limit = 0
    if case is stateful_layer:
        trained._sized = alone._sized = {"batch_size": 11}
    one = _with(trained, lambda: trained.fit())
    assert [facts["kind"] for facts in trained.counsel.told("refused")] == [kind]
    other = _with(alone, lambda: alone.fit())
    identical(one, other)


def test_where_it_is_not_exact_it_says_so():
    trained = Trained(normalised_and_dropped, rows=4)
    trained.fit()
    (told,) = trained.counsel.told("splitting")
    assert [note["kind"] for note in told["notes"]] == ["batch-statistics", "random-draws"]


def test_moving_statistics_are_those_of_the_whole_batch():
    """The first BatchNormalization sees the data itself: its moving mean and variance are exact."""

    def case():
        keras = cases._keras()
        return cases._fit(
            keras.Sequential([keras.Input((6,)), keras.layers.BatchNormalization(), keras.layers.Dense(3)])
        )

    whole, split = Trained(case), Trained(case, rows=3)
    one, other = _with(whole, lambda: whole.fit()), _with(split, lambda: split.fit())
    for name, value in one.weights.items():
        if "moving" in name:
            assert other.weights[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_k_grows_between_two_steps_without_a_trace():
    trained = Trained(cases.plain_sgd, rows=5)
    trained.fit(1)
    split = trained.guard.split_of(trained.model, "train")
    traces = split.traces
    trained.counsel.wish = 2
    trained.guard.heed()
    assert int(split.micro.numpy()) == 2
    trained.fit(1)
    assert split.traces == traces


def test_a_whole_run_is_split_in_the_middle_when_asked_to():
    whole, wished = Trained(cases.plain_sgd), Trained(cases.plain_sgd)
    one = _with(whole, lambda: whole.fit())

    class Wish(cases._keras().callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                wished.counsel.wish = 4
                wished.guard._heeded = 0
                wished.guard.heed()

    wished.arguments["callbacks"] = [Wish()]
    other = _with(wished, lambda: wished.fit())
    assert wished.guard.split_of(wished.model, "train") is not None
    difference, where = splitting.largest_difference(one.weights, other.weights)
    assert difference < 1e-5, where


def test_a_failure_of_ours_is_recorded_and_the_training_goes_on(monkeypatch):
    from keepfit.agent.keras import examine

    def broken(*_):
        raise RuntimeError("ours")

    monkeypatch.setattr(examine, "examine", broken)
    failing, alone = Trained(shuffled_dataset, rows=3), Trained(shuffled_dataset)
    alone.counsel.limit = 0
    history = _with(failing, lambda: failing.model.fit(**failing.arguments, epochs=2, shuffle=False, verbose=0)).history
    assert [str(error) for _, error in failing.heart.failures] == ["ours"]
    failing.heart.failures.clear()
    assert history == _with(alone, lambda: alone.fit()).history


def test_a_users_error_stays_the_users():
    def case():
        model, arguments = cases.plain_sgd()
        arguments["y"] = np.full(ROWS, 77)
        return model, arguments

    trained = Trained(case, rows=3)
    with pytest.raises(Exception, match="label value"):
        trained.fit()
    trained.heart.failures.clear()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_device_that_runs_out_is_tried_again_with_less(monkeypatch, compiled):
    """A layer that fails as an allocator does, above six rows: same process, same batch, no lost step."""
    from keepfit.agent.tensorflow import device

    monkeypatch.setattr(device, "accelerated", lambda: True)
    failures = []

    def case(limit=6):
        import tensorflow as tf

        keras = cases._keras()

        class Allocating(keras.layers.Layer):
            def call(self, x):
                def allocate(value):
                    if value.shape[0] > limit:
                        failures.append(value.shape[0])
                        raise MemoryError("failed to allocate")
                    return value

                return tf.ensure_shape(
                    tf.grad_pass_through(lambda v: tf.numpy_function(allocate, [v], v.dtype))(x), x.shape
                )

        layers = keras.layers
        model = keras.Sequential([keras.Input((6,)), layers.Dense(5), Allocating(), layers.Dense(3)])
        return cases._fit(model, metrics=["accuracy"], jit_compile=False)

    trained, whole = Trained(case), Trained(lambda: case(limit=100))
    one = _with(trained, lambda: trained.fit())
    assert failures and trained.counsel.told("exhausted")
    assert int(trained.guard.split_of(trained.model, "train").micro.numpy()) <= 6
    monkeypatch.setattr(device, "accelerated", lambda: False)
    other = _with(whole, lambda: whole.fit())
    difference, where = splitting.largest_difference(other.weights, one.weights)
    assert difference < 1e-5, where
    for name, values in other.history.items():
        assert one.history[name] == pytest.approx(values, rel=1e-5), name


def test_exhaustion_is_known_by_type_and_code():
    import tensorflow as tf

    from keepfit.agent.keras.retry import is_exhaustion

    assert is_exhaustion(tf.errors.ResourceExhaustedError(None, None, "x"))
    assert is_exhaustion(tf.errors.InternalError(None, None, "RESOURCE_EXHAUSTED: while running XLA"))
    assert not is_exhaustion(tf.errors.InvalidArgumentError(None, None, "out of memory"))
    assert not is_exhaustion(ValueError("RESOURCE_EXHAUSTED"))


def ragged_inputs():
    import tensorflow as tf

    keras = cases._keras()

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(1)

        def call(self, x):
            return self.head(tf.expand_dims(tf.reduce_mean(x, axis=1), -1))

    ragged = tf.ragged.constant([[1.0] * (1 + i % 4) for i in range(12)])
    data = tf.data.Dataset.from_tensor_slices((ragged, np.zeros((12, 1), "float32"))).batch(6)
    model = Model()
    model.compile("sgd", "mse")
    return model, {"x": data}


def tuples_returned():
    keras = cases._keras()

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.a, self.b = keras.layers.Dense(3), keras.layers.Dense(1)

        def call(self, x):
            return self.a(x), self.b(x)

    x, y = cases._table()
    return cases._fit(Model(), loss=[cases._crossentropy(), "mse"], data=(x, [y, x[:, :1]]))


@pytest.mark.parametrize("case", [ragged_inputs, tuples_returned])
def test_odd_models_train_as_without_us(case):
    split, alone = Trained(case, rows=4), Trained(case)
    alone.counsel.limit = 0
    one = _with(split, lambda: split.fit())
    other = _with(alone, lambda: alone.fit())
    difference, where = splitting.largest_difference(other.weights, one.weights)
    assert difference < 5e-5, where


def test_an_empty_last_batch_is_left_alone():
    """A generator that ends in a batch of no rows: Keras trains, and so do we."""
    import tensorflow as tf

    def case():
        x, y = cases._table()

        def generate():
            yield x[:9], y[:9]
            yield x[:0], y[:0]

        signature = (tf.TensorSpec((None, 6)), tf.TensorSpec((None,), tf.int64))
        model, _ = cases.plain_sgd()
        return model, {"x": tf.data.Dataset.from_generator(generate, output_signature=signature)}

    trained = Trained(case, rows=4)
    trained.fit()
    assert trained.counsel.told("splitting")


def test_predict_alone_is_split():
    trained = Trained(cases.dictionaries, rows=4)
    alone = Trained(cases.dictionaries)
    alone.counsel.limit = 0
    one = _with(trained, lambda: trained.predict())
    other = _with(alone, lambda: alone.predict())
    assert [facts["step"] for facts in trained.counsel.told("splitting")] == ["predict"]
    for key in one:
        assert one[key] == pytest.approx(other[key], rel=1e-5, abs=1e-6)


def test_train_on_batch_is_split_too():
    x, y = cases._table()
    split, alone = Trained(cases.plain_sgd, rows=4), Trained(cases.plain_sgd)
    alone.counsel.limit = 0
    results = [_with(trained, lambda t=trained: t.model.train_on_batch(x, y)) for trained in (split, alone)]
    assert split.counsel.told("splitting")
    assert float(results[0]) == pytest.approx(float(results[1]), rel=1e-5)


# --- what a review found ------------------------------------------------------------------------------


def same(case, rows=4, **options):
    """Split and whole, after two epochs: their largest difference."""
    whole, split = Trained(case), Trained(case, rows=rows, **options)
    one, other = _with(whole, lambda: whole.fit()), _with(split, lambda: split.fit())
    assert split.counsel.told("splitting"), split.counsel.asked
    for name in ("weights", "history"):
        difference, where = splitting.largest_difference(getattr(one, name), getattr(other, name))
        assert difference < 5e-5, f"{name}: {where}"


def test_a_loss_that_is_added_only_while_training_counts():
    def case(rate=0.0):
        keras = cases._keras()

        class Balance(keras.layers.Layer):
            def call(self, x, training=False):
                if training:
                    self.add_loss(0.5 * keras.ops.mean(keras.ops.square(x)))
                return x

        layers = keras.layers
        return cases._fit(keras.Sequential([keras.Input((6,)), layers.Dense(5), Balance(), layers.Dense(3)]))

    same(case)


def test_a_training_only_loss_beside_statistics_is_not_guessed_at():
    def case():
        keras = cases._keras()

        class Balance(keras.layers.Layer):
            def call(self, x, training=False):
                if training:
                    self.add_loss(keras.ops.mean(keras.ops.square(x)))
                return x

        layers = keras.layers
        model = keras.Sequential([keras.Input((6,)), layers.BatchNormalization(), Balance(), layers.Dense(3)])
        return cases._fit(model)

    trained = Trained(case, rows=4)
    trained.fit()
    assert [facts["kind"] for facts in trained.counsel.told("refused")] == ["coupled"]


def test_compile_makes_everything_new():
    """Freeze, fit, unfreeze, compile, fit: the standard script of transfer learning."""

    def train(trained):
        model = trained.model
        model.layers[0].trainable = False
        model.compile("sgd", cases._crossentropy())
        trained.fit(1)
        model.layers[0].trainable = True
        model.compile("sgd", cases._crossentropy(), metrics=["accuracy"])
        return trained.fit(1)

    whole, split = Trained(cases.plain_sgd), Trained(cases.plain_sgd, rows=4)
    one, other = _with(whole, lambda: train(whole)), _with(split, lambda: train(split))
    assert len(split.counsel.told("splitting")) == 2
    difference, where = splitting.largest_difference(one.weights, other.weights)
    assert difference < 1e-5, where


@pytest.mark.parametrize("first", ["predict", "evaluate"])
def test_another_step_may_be_split_before_the_training(first):
    whole, split = Trained(cases.dictionaries), Trained(cases.dictionaries, rows=4)
    results = []
    for trained in (whole, split):
        trained.heart.counsel = trained.guard.counsel = trained.counsel
        getattr(trained, first)()
        results.append(trained.fit())
    difference, where = splitting.largest_difference(results[0].weights, results[1].weights)
    assert difference < 1e-5, where


def test_sequences_of_other_lengths_may_follow():
    def case():
        import tensorflow as tf

        keras = cases._keras()

        def own(y_true, y_pred):
            return keras.ops.max(y_pred)

        layers = keras.layers
        model = keras.Sequential([keras.Input((None, 2)), layers.LSTM(3, return_sequences=True), layers.Dense(1)])
        model.compile("sgd", "mse", metrics=[own])

        def generate():
            for length in (4, 7, 3):
                yield np.ones((8, length, 2), "float32"), np.zeros((8, length, 1), "float32")

        signature = (tf.TensorSpec((None, None, 2)), tf.TensorSpec((None, None, 1)))
        return model, {"x": tf.data.Dataset.from_generator(generate, output_signature=signature)}

    same(case, rows=3)


def test_an_error_in_the_data_stays_what_it_was():
    def case():
        import tensorflow as tf

        model, _ = cases.plain_sgd()

        def generate():
            raise RuntimeError("file corrupt")
            yield

        signature = (tf.TensorSpec((None, 6)), tf.TensorSpec((None,), tf.int64))
        return model, {"x": tf.data.Dataset.from_generator(generate, output_signature=signature)}

    trained = Trained(case, rows=3)
    with pytest.raises(Exception, match="file corrupt"):
        trained.fit()
    trained.heart.failures.clear()


def test_a_loss_that_divides_by_what_is_rare_is_found_out():
    def case():
        keras = cases._keras()

        def masked(y_true, y_pred):
            valid = keras.ops.cast(keras.ops.not_equal(y_true, 0.0), "float32")
            return keras.ops.sum(keras.ops.square(y_true - y_pred) * valid) / keras.ops.sum(valid)

        x, _ = cases._table()
        y = np.ones((ROWS, 3), "float32")
        y[1] = 0  # not among the few rows that are looked at first
        return cases._fit(cases._dense(), loss=masked, data=(x, y))

    trained = Trained(case, rows=3)
    trained.fit()
    assert [facts["kind"] for facts in trained.counsel.told("refused")] == ["coupled"]


def test_a_users_wrapper_around_the_function_stays():
    calls = []

    def case():
        keras = cases._keras()

        class Model(keras.Sequential):
            def make_train_function(self, force=False):
                if self.train_function is None or force:
                    super().make_train_function(force)
                    inner = self.train_function

                    def counted(iterator):
                        calls.append(1)
                        return inner(iterator)

                    self.train_function = counted

        return cases._fit(Model([keras.Input((6,)), keras.layers.Dense(3)]))

    trained = Trained(case)
    trained.fit()
    assert len(calls) == 6


def test_metrics_that_are_one_number_a_call():
    def case():
        keras = cases._keras()
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        x, _ = cases._table()
        return cases._fit(model, loss="mse", data=(x, x[:, :1]), metrics=[keras.losses.MeanSquaredError()])

    same(case)


def test_counting_what_is_valid_does_not_touch_a_layers_state():
    def case():
        keras = cases._keras()

        class Counting(keras.layers.Layer):
            supports_masking = True

            def build(self, shape):
                self.calls = self.add_weight(shape=(), dtype="int32", trainable=False, initializer="zeros")

            def call(self, x):
                self.calls.assign_add(1)
                return x

        layers = keras.layers
        model = keras.Sequential(
            [keras.Input((7,), dtype="int32"), layers.Embedding(20, 5, mask_zero=True), Counting(), layers.Dense(3)]
        )
        return cases._fit(model, data=(cases._sentences(), cases._random().integers(0, 3, (ROWS, 7))))

    same(case)
