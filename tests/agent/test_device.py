"""Where the steps run, and what their memory is like."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.tensorflow

LET_GO = """
import tensorflow as tf
from keepfit.agent import peak
from keepfit.agent.tensorflow import device

before = peak.anonymous()
held = tf.ones((48 << 20,)) * 2
most = peak.anonymous()
del held
peak.give_back()
print(device.pools(), most - before >> 20, peak.anonymous() - before >> 20)
"""


@pytest.mark.parametrize("onednn", ["0", "1"])
def test_a_pool_is_told_from_what_gives_back(needs, onednn):
    needs("tensorflow")
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn}
    done = subprocess.run([sys.executable, "-c", LET_GO], capture_output=True, text=True, env=environment, check=True)
    pools, most, kept = done.stdout.split()
    assert int(most) >= 192
    assert int(kept) >= 192 if pools == "True" else int(kept) < 64
