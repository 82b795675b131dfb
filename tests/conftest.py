"""Shared fixtures, and the rule that a test which cannot run here says so by name, with the reason."""

from __future__ import annotations

import gc
import signal
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from . import stage

# Shared machines are slow at odd moments: how long an example took says nothing about the code.
settings.register_profile("keepfit", deadline=None)
settings.load_profile("keepfit")

# Started in the background, a shell has SIGINT ignored in us, and so would every victim have it.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and under nohup a hang-up


# A minute in all: what feels the path, the environment and the user first (scripts/fresh_clone.sh).
QUICK = ("tests/cli/", "tests/machine/", "tests/report/", "tests/agent/test_boot.py", "test_a_traceback_shows_none")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(mark in item.nodeid for mark in QUICK):
            item.add_marker("quick")


@cache
def reason(need: str) -> str | None:
    return stage.WHY_NOT[need]()


@pytest.fixture
def needs():
    """`needs("cgroup", "tensorflow")`: skip, with the reason, where this machine lacks something."""

    def check(*names: str) -> None:
        for name in names:
            if why_not := reason(name):
                pytest.skip(f"needs {name}: {why_not}")

    return check


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def frameworks_stay():
    """What a framework makes when it is imported stays: collections, which the splitting asks for, pass it over."""
    yield
    if "keras" in sys.modules and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
