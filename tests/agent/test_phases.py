"""Phases, epochs and steps of unmodified scripts, and that nothing of the user's changes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from keepfit.blackbox import record
from keepfit.blackbox.rundir import RunDirectory
from keepfit.facts import Beat

from .. import stage

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def real_tensorflow(needs):
    needs("tensorflow")


def beats(outcome: stage.Outcome) -> list[Beat]:
    return list(record.load(RunDirectory(outcome.directory)).last.beats)


def in_order(found: list[str], wanted: list[str]) -> bool:
    remaining = iter(found)
    return all(word in remaining for word in wanted)


def test_an_unmodified_fit(runs):
    outcome = stage.run(runs, stage.victim("healthy_fit.py"))
    assert outcome.status == 0, outcome.stderr
    heard = beats(outcome)
    phases = [beat.phase for beat in heard]
    assert in_order(
        phases, ["import", "data", "build", "data", "train", "trace", "train", "validation", "train", "checkpoint"]
    )
    assert in_order(phases, ["checkpoint", "data", "predict", "end"])
    steps = sorted({(beat.epoch, beat.step) for beat in heard if beat.phase == "train" and beat.step >= 0})
    assert set(steps) <= {(epoch, step) for epoch in range(3) for step in range(5)}, "144 samples in batches of 32"
    assert {(0, 4), (1, 4), (2, 4)} <= set(steps), "the last step of every epoch is there"
    trained = [beat for beat in heard if beat.phase == "train" and beat.step >= 0]
    assert {beat.batch_size for beat in trained} == {32}
    assert trained[-1].loss == trained[-1].loss and trained[-1].steps == 15
    assert not [event for event in outcome.events("agent") if event["state"] in ("failed", "partly")]


@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_an_unmodified_hand_written_loop(runs, how):
    outcome = stage.run(runs, stage.victim("hand_written_loop.py", how))
    assert outcome.status == 0, outcome.stderr
    heard = beats(outcome)
    steps = sorted({(beat.epoch, beat.step) for beat in heard if beat.phase == "train" and beat.step >= 0})
    assert steps == [(epoch, step) for epoch in range(3) for step in range(8)]
    assert {beat.batch_size for beat in heard if beat.phase == "train" and beat.step > 0} == {8}
    assert any(beat.phase == "validation" for beat in heard), "another dataset, without a tape"
    if how == "compiled":
        assert any(beat.phase == "trace" for beat in heard)


def test_train_on_batch(runs):
    code = (
        "import keras, numpy as np\n"
        "m = keras.Sequential([keras.layers.Dense(1)]); m.compile('sgd', 'mse')\n"
        "for _ in range(5): m.train_on_batch(np.ones((8, 4), 'f'), np.ones((8, 1), 'f'))\n"
    )
    heard = beats(stage.run(runs, [sys.executable, "-c", code]))
    assert [beat.step for beat in heard if beat.phase == "train" and beat.batch_size == 8][-1] == 4


def test_a_batch_size_hidden_in_a_pipeline(runs):
    code = (
        "import keras, tensorflow as tf\n"
        "ds = tf.data.Dataset.from_tensor_slices((tf.ones((50, 4)), tf.ones((50, 1))))\n"
        "ds = ds.shuffle(9).batch(20).prefetch(1)\n"
        "m = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]); m.compile('sgd', 'mse')\n"
        "m.fit(ds, verbose=0)\n"
    )
    heard = beats(stage.run(runs, [sys.executable, "-c", code]))
    assert {beat.batch_size for beat in heard if beat.phase == "train" and beat.step >= 0} == {20}


def test_after_an_exception_the_training_is_over(runs):
    """A notebook goes on after a failed fit: what comes then must never be called a hang."""
    code = (
        "import keras, numpy as np\n"
        "class Fails(keras.callbacks.Callback):\n"
        "    def on_train_batch_end(self, batch, logs=None):\n"
        "        if batch == 3: raise KeyError('theirs')\n"
        "m = keras.Sequential([keras.layers.Dense(1)]); m.compile('sgd', 'mse')\n"
        "try: m.fit(np.ones((64, 4)), np.ones((64, 1)), batch_size=8, verbose=0, callbacks=[Fails()])\n"
        "except KeyError: print('caught', flush=True)\n"
        "import time; time.sleep(14)\n"
    )
    outcome = stage.run(runs, [sys.executable, "-c", code])
    assert outcome.stdout.strip() == "caught" and outcome.events("finding") == [], "no suspicion of a hang"
    last = [beat for beat in beats(outcome) if beat.phase != "end"][-1]
    assert last.phase == "train", "the phase in which it failed"


def frames(traceback: str) -> list[str]:
    return [line.strip() for line in traceback.splitlines() if line.startswith('  File "')]


def test_a_traceback_shows_none_of_our_frames(runs):
    outcome = stage.run(runs, stage.victim("exception_in_fit.py"))
    plain = subprocess.run(stage.victim("exception_in_fit.py"), capture_output=True, text=True, check=False)
    ours = outcome.stderr.split("keepfit: ")[0]
    assert frames(ours) == frames(plain.stderr) and frames(ours)


def test_results_are_bit_identical_to_plain_keras(runs, tmp_path):
    code = (
        "import sys, keras, numpy as np\n"
        "keras.utils.set_random_seed(7)\n"
        "x = np.random.rand(200, 8).astype('f')\n"
        "L = keras.layers\n"
        "m = keras.Sequential([L.Dense(16, activation='relu'), L.Dropout(0.2), L.Dense(1)])\n"
        "m.compile('adam', 'mse', metrics=['mae'])\n"
        "h = m.fit(x, x.sum(1), epochs=3, validation_split=0.2, verbose=0)\n"
        "import hashlib\n"
        "print(hashlib.sha256(b''.join(w.tobytes() for w in m.get_weights())).hexdigest(), h.history)\n"
    )
    outcome = stage.run(runs, [sys.executable, "-c", code])
    plain = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=stage.clean_environment(runs), check=True
    )
    assert outcome.stdout == plain.stdout and outcome.stdout


def test_the_beat_of_a_dying_step_is_in_the_record(runs):
    code = (
        "import keras, numpy as np, os\n"
        "class Dies(keras.callbacks.Callback):\n"
        "    def on_train_batch_begin(self, batch, logs=None):\n"
        "        if batch == 5: os.kill(os.getpid(), 9)\n"
        "m = keras.Sequential([keras.layers.Dense(1)]); m.compile('sgd', 'mse')\n"
        "m.fit(np.ones((80, 4)), np.ones((80, 1)), batch_size=8, verbose=0, callbacks=[Dies()])\n"
    )
    outcome = stage.run(runs, [sys.executable, "-c", code])
    verdict = outcome.why()
    assert verdict["cause"] == "killed_unknown"
    assert (verdict["where"]["epoch"], verdict["where"]["step"], verdict["where"]["phase"]) == (0, 4, "train")
