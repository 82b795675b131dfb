"""A graph that was only looked at is let go, also where TensorFlow would keep it for as long as the process."""

from __future__ import annotations

import gc

import pytest

from .. import stage

pytestmark = pytest.mark.skipif(bool(stage.why_no_tensorflow()), reason=str(stage.why_no_tensorflow()))


def _traced():
    """The graph of a step that makes variables (an optimizer's) while it is traced; its function is gone."""
    import keras
    import numpy as np

    from keepfit.agent.keras.held import HeldBatches

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    model.compile("adam", "mse")
    data = np.ones((8, 4), "float32"), np.ones((8, 3), "float32")
    model.make_train_function()
    function = model.train_function
    function = getattr(function, "_function", function)  # where other tests have put the guard in
    return HeldBatches(iter([data]), 1, 8).trace(function)


def _alive():
    return sum(type(thing).__name__ == "Operation" for thing in gc.get_objects())


def test_nothing_is_left_of_a_dismantled_graph():
    from keepfit.agent.tensorflow import tracing

    graph = _traced()
    operations = len(graph.get_operations())
    gc.collect()
    before = _alive()
    tracing.dismantle([graph])
    assert _alive() <= before - operations // 2  # a tensor here and there has other friends


def test_traced_for_any_rows_it_is_traced_for_all_sizes_also_where_a_batch_says_how_many_it_has():
    """Keras' batches of arrays do, where all of them are of one size; behind them another size was traced anew."""
    import keras
    import numpy as np
    import tensorflow as tf

    from keepfit.agent.keras.held import HeldBatches

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    model.compile("adam", "mse")
    traced, plain = [], model.train_step
    model.train_step = lambda data: traced.append(data) or plain(data)
    model.make_train_function()
    function = getattr(model.train_function, "_function", model.train_function)
    data = tf.data.Dataset.from_tensor_slices((np.ones((8, 4), "float32"), np.ones((8, 3), "float32")))
    held = HeldBatches(iter(data.batch(2, drop_remainder=True)), 1, 2)
    assert held.spec()[0].shape[0] == 2
    held.of_any_rows()
    held.trace(function)
    once = len(traced)
    assert once
    for batches in (held.handed_on(), held.sized(3, 2), held.sized(5, 2)):
        function(batches)
        function(batches)
    assert len(traced) == once and int(model.optimizer.iterations) == 6
