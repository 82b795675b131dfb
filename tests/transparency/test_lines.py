"""Nothing changes for a command under keepfit but what the table of differences says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .. import stage
from . import compare
from .differences import BY_NAME
from .lines import LINES, Line
from .page import page

QUICK = [pytest.param(line, id=line.name, marks=pytest.mark.quick) for line in LINES[::6]]
OTHERS = [pytest.param(line, id=line.name) for place, line in enumerate(LINES) if place % 6]


@pytest.mark.parametrize("line", [*QUICK, *OTHERS])
def test_the_same_as_plainly(line: Line, tmp_path):
    if line.needs and shutil.which(line.needs) is None:
        pytest.skip(f"{line.needs} is not installed")
    plain, kept = compare.both(line, tmp_path)
    assert kept.without(line.differs) == plain.without(line.differs)


def test_there_are_as_many_as_were_promised():
    assert len(LINES) >= 120 and len({line.name for line in LINES}) == len(LINES)


def test_every_difference_that_is_allowed_is_there():
    """A difference that no line shows is none, and one that no line may have is not in the table."""
    used = {name for line in LINES for name in line.differs}
    assert used == set(BY_NAME)


@pytest.mark.parametrize("line", [line for line in LINES if line.differs], ids=lambda line: line.name)
def test_what_may_differ_does(line: Line, tmp_path):
    plain, kept = compare.both(line, tmp_path)
    for name in line.differs:
        others = [other for other in line.differs if other != name]
        assert kept.without(others) != plain.without(others), f"{name} is no difference here"


def test_the_page_is_made_from_the_table():
    path = Path(__file__).parents[2] / "docs" / "what_changes.md"
    assert path.read_text() == page(), "python -m tests.transparency.page > docs/what_changes.md"


def test_the_launcher_is_there():
    assert compare.LAUNCHER.is_file(), "keepfit is not installed beside this interpreter"
    assert stage.KEEPFIT
