"""Whether there is another attempt, and how a person stops it."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from .. import stage

WORKER = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
GROUPS = {
    "torchrun": {"RANK": "0", "WORLD_SIZE": "2"},
    "Slurm": {"SLURM_PROCID": "1", "SLURM_NTASKS": "2"},
    "TensorFlow": {"TF_CONFIG": json.dumps(WORKER)},
    "JAX": {"JAX_COORDINATOR_ADDRESS": "localhost:1234"},
}  # fmt: skip


@pytest.mark.parametrize("launcher", GROUPS)
def test_in_a_group_there_is_none_and_the_launcher_sees_the_signal(runs, launcher, needs):
    needs("tensorflow")
    process = stage.start(runs, stage.victim("dies_in_training.py"), **GROUPS[launcher])
    outcome = stage.finish(process, runs)
    assert process.returncode == -signal.SIGKILL, "what the launcher sees"
    assert outcome.stdout.count("training") == 1, "one attempt"
    assert re.search(r"keepfit: this is .* keepfit starts nothing again here", outcome.stderr)


def test_a_group_of_one_is_none(runs):
    outcome = stage.run(runs, ["true"], RANK="0", WORLD_SIZE="1")
    assert outcome.stderr == ""


def test_the_line_of_the_new_attempt_says_how_to_stop_for_good(runs, needs):
    needs("tensorflow")
    process = stage.start(runs, stage.victim("dies_in_training.py", "then-stays"))
    seen = stage.wait_for_output(process, b"training\ntraining\n")
    process.send_signal(signal.SIGTERM)
    outcome = stage.finish(process, runs, seen)
    assert f"to stop for good: Ctrl-C, or kill {process.pid}\n" in outcome.stderr
    assert process.returncode == -signal.SIGTERM and outcome.stdout.count("training") == 2
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
