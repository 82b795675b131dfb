"""Attaching to a process that already runs: read-only, from now on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..facts import Verdict
from ..machine import cgroup, procfs
from . import scene
from .conclude import conclude, file_away
from .judge import Judge, Subject
from .options import RunOptions
from .records import open_record


class NotThere(Exception):
    """No such process, or not ours to look at."""


def find(pid: int) -> procfs.Stat:
    known = procfs.stat(pid)
    if known is None or known.state in "ZX":
        raise NotThere(f"there is no process {pid}")
    return known


def watch(
    pid: int, runs: Path, environment: Mapping[str, str], name: str = "", hang_after: float | None = None
) -> Verdict:
    """Record a running process until it ends, and judge its end. Nothing is sent to it."""
    known = find(pid)
    argv = tuple(procfs.command_line(pid)) or (known.name,)
    options = RunOptions(argv, runs, name=name, guards=frozenset({"hang"}), hang_after=hang_after, quiet=False)
    record = open_record(options, environment, watched=True)
    if record is None:
        raise NotThere("nothing can be recorded here: neither the runs nor the temp directory can be written")
    before = scene.before(cgroup.placement(pid), None, str(runs), environment)
    before.lacked.append("output: it went elsewhere before keepfit came")
    judge = Judge(options, record.run, record.journal, before, link=None)
    record.journal.write("attempt", n=1, pid=pid, start=known.start)
    record.journal.write("scene", n=1, **scene.opening(before))
    judge.run(Subject(pid, known.start, watched=True))
    verdict = conclude(record.run)
    record.journal.write("end")
    file_away(record.run)
    return verdict
