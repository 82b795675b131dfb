"""`keepfit.plan(model, …)`: a forecast from the graph alone, which leaves the model as it was."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import keepfit
from keepfit.agent import peak

pytestmark = pytest.mark.tensorflow
MIB = 1 << 20


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


def made(optimizer="adam", name="first", units=256):
    import keras

    keras.utils.set_random_seed(3)
    layers = keras.layers
    model = keras.Sequential([keras.Input((64,)), layers.Dense(units, "relu", name=name), layers.Dense(4)])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def data(rows=96):
    rng = np.random.default_rng(0)
    return rng.random((rows, 64), dtype="float32"), rng.integers(0, 4, rows)


def test_a_larger_batch_needs_more_and_nothing_was_run():
    import tensorflow as tf

    model = made()
    specs = tf.TensorSpec((None, 64), tf.float32), tf.TensorSpec((None,), tf.int64)
    small, large = (keepfit.plan(model, *specs, batch_size=rows) for rows in (64, 65536))
    assert large.document["how"] == "static" and large.document["trials"] == 0
    assert large.document["breakdown"]["activations"] > 65536 * 256 * 4  # of the wide layer, at the least
    assert large.peak_bytes - small.peak_bytes > 64 * MIB
    assert int(model.optimizer.iterations.numpy()) == 0
    by_layer = {layer["name"]: layer for layer in large.document["layers"]}
    assert by_layer["first"]["activation_bytes"] >= 65536 * 256 * 4 == by_layer["first"]["largest_tensor_bytes"]
    assert all(layer["largest_tensor_bytes"] <= layer["activation_bytes"] for layer in by_layer.values())


def test_an_optimizer_that_stands_in_changes_its_state_alone():
    x, y = data()
    model = made(units=4096)
    plain = keepfit.plan(model, x, y, optimizer="sgd").document["breakdown"]
    adam = keepfit.plan(model, x, y).document["breakdown"]
    assert plain["weights"] == adam["weights"]
    assert adam["optimizer"] > 1.9 * adam["weights"] and plain["optimizer"] < MIB


def test_a_planned_model_trains_as_one_that_never_was():
    import tensorflow as tf

    x, y = data()
    pipeline = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    results = []
    for planned in (False, True):
        model = made()
        if planned:
            told = keepfit.plan(model, pipeline)
            assert told.document["batch_size"] == 16 and told.fits
        history = model.fit(pipeline, epochs=2, verbose=0).history
        results.append((history, [w.tobytes() for w in model.get_weights()]))
    assert results[0] == results[1]


def test_another_optimizer_is_planned_as_if_the_models_own_were_not_there():
    import keras

    wide = keras.Sequential([keras.Input((64,)), keras.layers.Dense(40_000), keras.layers.Dense(5)])
    wide.compile("adam", "sparse_categorical_crossentropy")
    x, y = np.zeros((64, 64), "float32"), np.zeros(64, "int32")
    own, lighter = keepfit.plan(wide, x, y), keepfit.plan(wide, x, y, optimizer="sgd")
    saved = own.document["breakdown"]["optimizer"] - lighter.document["breakdown"]["optimizer"]
    assert own.peak_bytes - lighter.peak_bytes > 0.5 * saved > 10 << 20


def test_a_copy_that_was_planned_leaves_nothing_behind():
    """TensorFlow keeps the variables of a step that was traced for as long as the process: not their bytes."""
    import keras

    wide = keras.Sequential([keras.Input((64,)), keras.layers.Dense(80_000), keras.layers.Dense(5)])
    wide.compile("sgd", "sparse_categorical_crossentropy")
    x, y = np.zeros((64, 64), "float32"), np.zeros(64, "int32")
    before = wide.get_weights()
    use = [peak.anonymous() for _ in range(6) if keepfit.plan(wide, x, y, optimizer="adam")]
    a_copy = 3 * sum(weight.nbytes for weight in before)  # and what Adam keeps of it
    assert use[-1] - use[1] < 2 * a_copy and a_copy > 60 * MIB  # and four were made meanwhile
    assert all(np.array_equal(*pair) for pair in zip(before, wide.get_weights(), strict=True))


def test_mallocs_settings_stay_as_they_are():
    """`from_generator` would change them for the whole process, and says so."""
    script = """
import keras, numpy as np, keepfit
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile("sgd", "mse")
keepfit.plan(model, np.zeros((8, 4)), np.zeros((8, 2)))
print("planned")
"""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert "planned" in done.stdout and "TRIM_THRESHOLD" not in done.stderr


def test_lengths_that_a_pipeline_does_not_tell_are_those_of_its_first_batch():
    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.Input((None,), dtype="int32"), keras.layers.Embedding(9, 64),
                              keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(2)])  # fmt: skip
    model.compile("sgd", "mse")
    words = tf.data.Dataset.from_generator(
        lambda: iter([(np.ones((8, 500)), np.ones((8, 2)))]),
        output_signature=(tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((None, 2), tf.float32)),
    )
    told = keepfit.plan(model, words)
    assert told.document["batch_size"] == 8 and told.document["breakdown"]["activations"] >= 8 * 500 * 64 * 4
    assert "sequences longer than those of the first batch" in told.document["not_counted"]
    with pytest.raises(ValueError, match="a length along every axis but the first was expected"):
        keepfit.plan(model, tf.TensorSpec((None, None), tf.int32), np.ones((8, 2)))


def test_what_it_shows():
    told = keepfit.plan(made(name="a_layer"), *data(), memory="2GiB")
    assert "batch 32 needs about" in str(told) and "there are 2.00 GiB (--memory): it fits" in str(told)
    assert "of it program code, which gives way; there are" in str(told)
    html = told._repr_html_()
    assert html.count("<div style='margin") == 3 and "<script" not in html
    for phase in told.document["phases"]:
        assert set(phase["parts"]) == set(told.document["breakdown"])


def test_bad_input_is_said_in_a_line():
    import keras
    import tensorflow as tf

    x, y = data()
    with pytest.raises(TypeError, match=r"a keras\.Model was expected; received str"):
        keepfit.plan("model", x)
    with pytest.raises(ValueError, match="a compiled model was expected"):
        keepfit.plan(keras.Sequential([keras.layers.Dense(2)]), x)
    with pytest.raises(ValueError, match="batch_size: a whole number from 1 was expected; received 0"):
        keepfit.plan(made(), x, y, batch_size=0)
    for memory in (0, -5, 1.5):
        with pytest.raises(ValueError, match=f"memory: a whole number from 1 was expected; received {memory}"):
            keepfit.plan(made(), x, y, memory=memory)
    with pytest.raises(ValueError, match="as many rows in each array were expected; received"):
        keepfit.plan(made(), x, y[:-1])
    with pytest.raises(TypeError, match="were expected; received str"):
        keepfit.plan(made(), "data")
    with pytest.raises(ValueError, match=r"nothing was expected beside a tf\.data pipeline"):
        keepfit.plan(made(), tf.data.Dataset.from_tensor_slices((x, y)).batch(4), batch_size=8)


@pytest.mark.parametrize(
    ("scopes", "owners"),
    [
        (["conv2d", "conv2d_1", "conv2d_2"], ["conv2d", "conv2d_1", "conv2d_2"]),
        (["conv2d_1", "conv2d_1_2", "conv2d_2_1"], ["conv2d", "conv2d_1", "conv2d_2"]),  # all of them called before
        (["conv2d", "conv2d_3", "conv2d_1", "conv2d_2"], ["conv2d", "conv2d", "conv2d_1", "conv2d_2"]),  # one is shared
        (["functional_1", "Adam", "conv2d_x"], []),
    ],
)
def test_which_layer_a_scope_belongs_to(scopes, owners):
    from keepfit.agent.keras.outlook import owners_of

    found = owners_of(set(scopes), {"conv2d": 0, "conv2d_1": 0, "conv2d_2": 0})
    assert [found[scope] for scope in scopes if scope in found] == owners


def test_layers_of_the_same_kind_each_have_their_own_work():
    import keras
    import tensorflow as tf

    inputs = h = keras.Input((32, 32, 3))
    for width in (8, 16, 16):
        h = keras.layers.Conv2D(width, 3, padding="same", activation="relu")(h)
    model = keras.Model(inputs, keras.layers.Dense(4)(keras.layers.GlobalAveragePooling2D()(h)))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    specs = tf.TensorSpec((None, 32, 32, 3)), tf.TensorSpec((None,), tf.int64)
    told = keepfit.plan(model, *specs, batch_size=16).document["layers"]
    shares = {layer["name"]: layer["time_share"] for layer in told}
    first, second, third = (shares[layer.name] for layer in model.layers[1:4])
    assert first > 0 and 1.5 < second / first < 16 and 1.5 < third / second < 3


def test_no_batch_is_larger_than_the_data():
    x, y = data(96)
    told = keepfit.plan(made(), x, y, batch_size=1 << 20)
    assert told.document["batch_size"] == 96
