"""What is noted of TensorFlow's pool, against tensors whose sizes are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from keepfit.plan.pool import Steps

pytestmark = pytest.mark.tensorflow

NOTES = """
import json, os, sys
import tensorflow as tf
from keepfit.agent.tensorflow import device, pool

folder, busy = sys.argv[1:]
kept, going = tf.ones((3 << 20,)), tf.ones((1 << 20,))
if busy:
    tf.profiler.experimental.start(folder + "/of_the_script")
with pool.Recording([12 << 20], folder) as recording:
    del going
    taken = tf.raw_ops.Empty(shape=[5 << 20], dtype=tf.uint8)
    del taken
    left = tf.raw_ops.Empty(shape=[7 << 20], dtype=tf.uint8)
print(json.dumps([device.pools(), recording.told, os.listdir(folder)]))
"""


def noted(folder, onednn: str, busy: str = "") -> list:
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn}
    command = [sys.executable, "-c", NOTES, str(folder), busy]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert busy or "rofiler" not in done.stderr
    return list(json.loads(done.stdout))


def test_what_is_taken_and_given_back_is_noted_in_its_order(needs, tmp_path):
    needs("tensorflow")
    pools, told, files = noted(tmp_path, "1")
    if not pools:
        pytest.skip("needs a pool: TensorFlow's allocator of this CPU gives back what is freed")
    assert files == []  # nothing is left behind
    moves = [*told["before"], *told["events"]]
    sizes = {number: size for number, size, _ in moves if size}
    large = [(sizes[number] >> 20, bool(size)) for number, size, _ in moves if sizes[number] >= 1 << 20]
    assert large == [(4, True), (4, False), (5, True), (5, False), (7, True)]
    known = Steps.of({"rows": 1, **told})  # the first tensor lies in a region of 16 MiB, which is all of it
    assert known.kept[0] == 12 << 20 and known.kept[1] < 1 << 20 and len(known.events) == len(moves)


def test_where_there_is_no_pool_nothing_is_noted(needs, tmp_path):
    needs("tensorflow")
    assert noted(tmp_path, "0")[:2] == [False, None]


def test_a_script_that_profiles_itself_is_left_alone(needs, tmp_path):
    needs("tensorflow")
    _, told, files = noted(tmp_path, "1", "busy")
    assert told is None and not any(name.startswith("pool-") for name in files)
