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

from keepfit.plan.pool import LEAST, Pool, Replay, Steps

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
        elif piece := lying.pop(number):
            pool.give_back(piece)
        told.append(pool.in_use)
    return pool, told


def test_the_pool_is_tensorflows_own(needs):
    needs("tensorflow")
    draw = random.Random(6)
    most = (300 << 10, MIB, 8 * MIB, 150 * MIB)
    moves = _moves([LEAST - 1, LEAST, *(draw.randrange(1, draw.choice(most)) for _ in range(600))], draw.randrange)
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
        elif piece := lying.pop(number):
            pool.give_back(piece)
        taken = sorted((piece.region, piece.at, piece.size) for piece in lying.values() if piece is not None)
        for (region, at, length), (other, later, _) in pairwise(taken):
            assert region != other or at + length <= later
        assert sum(length for _, _, length in taken) == pool.in_use
    for piece in filter(None, lying.values()):
        pool.give_back(piece)
    assert pool.in_use == 0 and all(piece.at == 0 and piece.before is piece.after is None for piece in pool._free)


def _of(rows: int, *events: tuple[int, int, str], kept: tuple[int, ...] = ()) -> Steps:
    return Steps(rows, kept, events)


def test_what_goes_by_the_rows_is_scaled_and_what_does_not_is_not():
    def steps(rows: int) -> Steps:
        return _of(rows, (0, 5 * MIB, "weights"), (1, rows * MIB, "rows"), (1, 0, ""), (2, rows * MIB, "rows"))

    replay = Replay(steps(10), steps(4))
    assert replay.resident(10) > 10 * MIB
    assert replay.resident(30) - replay.resident(10) == 20 * MIB


def test_without_another_size_what_is_as_large_as_a_variable_is_fixed():
    alone = Replay(_of(10, (0, 8 * MIB, "gradient"), (1, 10 * MIB, "rows"), kept=(8 * MIB,)))
    assert alone.resident(30) - alone.resident(10) == 20 * MIB


def test_pieces_too_small_for_the_pool_count_where_they_lie():
    """A hundred of 400 KiB each at 100 rows, all at once; at 50 rows they are malloc's."""
    steps = _of(100, *((number, 400 << 10, "each") for number in range(100)))
    resident = Replay(steps).resident
    assert resident(50) == 100 * (200 << 10)
    assert 100 * (400 << 10) <= resident(100) < 100 * (440 << 10)


def test_behind_a_smaller_size_its_places_are_used_as_far_as_they_go():
    """Regions of 16 and 32 MiB, cut by one size and the other, are not the one of 64 that the larger takes alone."""
    steps = _of(10, (0, 10 * MIB, "a"), (1, 10 * MIB, "b"))
    resident = Replay(steps).resident
    assert resident(10) == 20 * MIB and resident(60) == 120 * MIB
    assert resident(10, 10) == resident(10) < resident(10, 60)
    assert resident(10, 60) >= resident(60)


def test_a_need_may_fall_with_more_rows():
    """Of 64 MiB two lie in regions of their own size, and what comes behind the second, nearly twice as large, needs a
    third one; of 65 each has a region of 128, where that finds room."""
    tenth = MIB // 10

    def steps(rows: int) -> Steps:
        return _of(rows, (0, rows * tenth, "a"), (1, rows * tenth, "b"), (1, 0, ""), (2, rows * 19 * tenth // 10, "c"))

    resident = Replay(steps(600), steps(30)).resident
    assert resident(640) // MIB == 249 and resident(650) // MIB == 188
