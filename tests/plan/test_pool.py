"""TensorFlow's pool, played through: by its own rules, exactly."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepfit.plan.pool import FIRST, SMALL, Pool, Replay, Steps

MIB = 1 << 20
SIZES = st.one_of(st.integers(1, MIB), st.integers(1, 8 * MIB), st.integers(MIB, 400 * MIB))

REAL = """
import json, sys
import tensorflow as tf
from keepfit.agent.tensorflow import device

if not device.pools():
    print("null")
    sys.exit()
lying, told = {}, []
for number, size in json.loads(sys.argv[1]):
    if size:
        lying[number] = tf.raw_ops.Empty(shape=[size], dtype=tf.uint8)
    else:
        del lying[number]
    told.append(tf.config.experimental.get_memory_info("CPU:0")["current"])
print(json.dumps(told))
"""


def _moves(sizes: list[int], choose) -> list[tuple[int, int]]:
    """Taken one by one, and given back now and then: (number, bytes), 0 bytes where it is given back."""
    moves, lying = [], []
    for number, size in enumerate(sizes):
        moves.append((number, size))
        lying.append(number)
        while lying and choose(3) == 0:
            moves.append((lying.pop(choose(len(lying))), 0))
    return moves


def _played(moves: list[tuple[int, int]]) -> tuple[Pool, list[int]]:
    pool, lying, told = Pool(), {}, []
    for number, size in moves:
        if size:
            lying[number] = pool.take(size)
        else:
            pool.give_back(lying.pop(number))
        told.append(pool.in_use)
    return pool, told


def test_the_pool_is_tensorflows_own(needs):
    needs("tensorflow")
    draw = random.Random(6)
    most = (300 << 10, MIB, 8 * MIB, 150 * MIB)
    moves = _moves([SMALL - 1, SMALL, *(draw.randrange(1, draw.choice(most)) for _ in range(600))], draw.randrange)
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1"}
    command = [sys.executable, "-c", REAL, json.dumps(moves)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    if (real := json.loads(done.stdout)) is None:
        pytest.skip("needs a pool: TensorFlow's allocator of this CPU gives back what is freed")
    assert _played(moves)[1] == real


@settings(deadline=None)
@given(st.lists(SIZES, max_size=60), st.data())
def test_pieces_never_overlap_and_all_comes_back(sizes, data):
    pool, lying = Pool(), {}
    for number, size in _moves(sizes, lambda less: data.draw(st.integers(0, less - 1))):
        if size:
            lying[number] = pool.take(size)
        else:
            pool.give_back(lying.pop(number))
        taken = sorted((piece.region, piece.at, piece.size) for piece in lying.values() if piece is not None)
        for (region, at, length), (other, later, _) in pairwise(taken):
            assert region != other or at + length <= later
        assert sum(length for _, _, length in taken) == pool.in_use
    for piece in lying.values():
        pool.give_back(piece)
    assert pool.in_use == 0 and all(piece.at == 0 and piece.before is piece.after is None for piece in pool._free)


def test_what_goes_by_the_rows_is_scaled_and_what_does_not_is_not():
    def steps(rows: int) -> Steps:
        return Steps(
            rows, (FIRST,), ((0, 5 * MIB, "weights"), (1, rows * MIB, "rows"), (1, 0, ""), (2, rows * MIB, "rows"))
        )

    replay = Replay(steps(10), steps(4))
    assert replay.resident(10) == replay.resident(10) > 10 * MIB
    assert replay.resident(30) - replay.resident(10) == 20 * MIB


def test_a_need_jumps_where_tensors_outgrow_their_places():
    """Two at a time: the second of 60 MiB lies behind the first in a region of 128, one of 65 does not."""
    steps = [Steps(rows, (), ((0, rows * MIB, "a"), (1, rows * MIB, "b"), (2, rows * MIB, "c"))) for rows in (60, 3)]
    resident = Replay(*steps).resident
    assert resident(60) == 180 * MIB and resident(64) == 192 * MIB
    assert resident(65) == 195 * MIB  # nothing is touched that is not in use
