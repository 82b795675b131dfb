"""Who does not die feels nothing: results under keepfit are those of plain Keras, bit for bit, files included."""

from __future__ import annotations

import json

import pytest

from .. import stage

pytestmark = pytest.mark.skipif(bool(stage.why_no_tensorflow()), reason=str(stage.why_no_tensorflow()))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    commands = {}
    for name in ("plain", "kept"):
        (folder / name).mkdir()
        commands[name] = stage.victim("many_trainings.py", str(folder / f"{name}.json"), str(folder / name))
    plain = stage.beside(folder / "said", commands["plain"])
    outcome = stage.finish(stage.start(folder / "runs", commands["kept"]), folder / "runs")
    assert outcome.status == 0, outcome.stderr[-3000:]
    assert not [e for e in outcome.events("agent") if e.get("state") == "failed"]
    assert outcome.events("checkpoint"), "nothing was saved: then nothing was tested"
    plain()
    return [json.loads((folder / f"{name}.json").read_text()) for name in ("plain", "kept")]


def test_more_than_thirty_trainings(both):
    plain, kept = both
    assert len(plain) >= 33
    assert kept == plain
