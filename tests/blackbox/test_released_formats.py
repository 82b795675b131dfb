"""Records written by every released format stay readable for ever."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

import pytest

from keepfit.blackbox import record
from keepfit.blackbox.rundir import RunDirectory
from keepfit.conditions.verdict import judge

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("version", sorted(path.name for path in FIXTURES.iterdir()))
def test_a_record_of_every_version(tmp_path, version):
    source = FIXTURES / version
    run = RunDirectory.create(tmp_path)
    shutil.copy(source / "journal.jsonl", run.path / "journal.jsonl")
    for name in ("ring", "stdout", "stderr"):
        (run.path / name).write_bytes(lzma.decompress((source / f"{name}.xz").read_bytes()))
    known = record.load(run)
    assert known.lost == () and known.name == "fixture" and known.last.samples
    assert known.last.stdout == "epoch 1\n" and "KeyError" in known.last.stderr
    verdict = judge(known)
    assert (verdict.cause, verdict.confidence) == ("python_error", "certain")
    assert (verdict.where.file, verdict.where.line) == ("/home/me/train.py", 2)
