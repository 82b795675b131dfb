"""Who does not die feels nothing: results under keepfit are those of plain Keras, bit for bit, files included."""

from __future__ import annotations

import json
import subprocess

import pytest

from .. import stage

pytestmark = pytest.mark.skipif(bool(stage.why_no_tensorflow()), reason=str(stage.why_no_tensorflow()))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    results = []
    for name in ("plain", "kept"):
        (folder / name).mkdir()
        command = stage.victim("many_trainings.py", str(folder / f"{name}.json"), str(folder / name))
        if name == "plain":
            done = subprocess.run(
                command, capture_output=True, text=True, env=stage.clean_environment(folder / "no"), check=False
            )
            assert done.returncode == 0, done.stderr[-3000:]
        else:
            outcome = stage.finish(stage.start(folder / "runs", command), folder / "runs", seconds=500)
            assert outcome.status == 0, outcome.stderr[-3000:]
            assert not [e for e in outcome.events("agent") if e.get("state") == "failed"]
            assert outcome.events("checkpoint"), "nothing was saved: then nothing was tested"
        results.append(json.loads((folder / f"{name}.json").read_text()))
    return results


def test_more_than_thirty_trainings(both):
    plain, kept = both
    assert len(plain) >= 33
    assert kept == plain
