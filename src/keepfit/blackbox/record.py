"""A run directory read back as facts: what `why` and every detector see.

Whatever was damaged is skipped and named in `Record.lost`; reading never raises.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from ..facts import (
    Attempt,
    ChildDeath,
    Danger,
    Disk,
    Exit,
    Finding,
    Frame,
    Loop,
    MemoryLimit,
    Notice,
    OomCounters,
    PythonError,
    Record,
    Splitting,
    Stall,
)
from ..machine import procfs
from . import journal, ring, tail
from .rundir import RunDirectory

T = TypeVar("T")
Event = Mapping[str, Any]

_FATAL = "Fatal Python error"


def build(cls: type[T], data: object) -> T | None:
    """A fact from its JSON form; None when the JSON is not of that shape (an older or damaged line)."""
    if not isinstance(data, Mapping):
        return None
    names = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    kept = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in names}
    try:
        return cls(**kept)
    except TypeError:
        return None


def _all(cls: type[T], items: object) -> tuple[T, ...]:
    found = (build(cls, item) for item in items) if isinstance(items, list) else ()
    return tuple(item for item in found if item is not None)


def load(run: RunDirectory) -> Record:
    try:
        return _load(run)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        # Readable JSON that makes no sense: somebody else's, or damaged in an unlucky place.
        return Record(run=run.id, lost=(f"the journal makes no sense ({type(error).__name__}: {error})",))


def _load(run: RunDirectory) -> Record:
    events, lost = journal.read(run.journal)
    content = ring.read(run.ring)
    heads = [e for e in events if e["event"] == "run"]  # one a session: a run that is resumed has several
    head = {**heads[0], **{k: heads[-1].get(k) for k in ("pid", "start", "boot")}} if heads else {}
    # In the order of the file, not of the clock: a resumed run may have changed its machine.
    starts = [index for index, e in enumerate(events) if e["event"] == "attempt"]
    attempts = []
    for index, (start, until) in enumerate(zip(starts, [*starts[1:], len(events)], strict=True)):
        last = index + 1 == len(starts)
        attempts.append(
            _attempt(run, head, events[start], events[start:until], _ring_of(run, index + 1, content), last)
        )
    ended = next((e.get("t") for e in reversed(journal.newest_session(events)) if e["event"] == "end"), None)
    return Record(
        run=run.id,
        name=str(head.get("name") or ""),
        argv=tuple(head.get("argv") or ()),
        cwd=str(head.get("cwd") or ""),
        started_at=float(head.get("t") or 0.0),
        ended_at=ended,
        attempts=tuple(attempts),
        findings=tuple(_findings(events)),
        lost=tuple(lost) + content.lost,
        alive=any(a.alive for a in attempts) or (not attempts and _supervisor_alive(head)),
    )


def _ring_of(run: RunDirectory, attempt: int, newest: ring.RingContent) -> ring.RingContent:
    """The ring in which an attempt was sampled: a run that goes on after a reboot begins a new one."""
    last = [int(word) for path in run.path.glob("ring-*") if (word := path.name[5:]).isdigit() and int(word) >= attempt]
    return ring.read(f"{run.ring}-{min(last)}") if last else newest


def _findings(events: list[dict[str, Any]]) -> list[Finding]:
    found = (build(Finding, e) for e in events if e["event"] == "finding")
    return [finding for finding in found if finding is not None]


def _supervisor_alive(head: Event) -> bool:
    return procfs.same_process(int(head.get("pid") or 0), int(head.get("start") or 0), str(head.get("boot")))


def _attempt(
    run: RunDirectory,
    head: Event,
    start: Event,
    own: list[dict[str, Any]],
    content: ring.RingContent,
    last: bool,
) -> Attempt:
    def first(name: str) -> Event:
        return next((e for e in own if e["event"] == name), {})

    def every(name: str) -> list[dict[str, Any]]:
        return [e for e in own if e["event"] == name]

    began = float(start.get("m") or 0.0)
    scene, exit_event, deathbed = first("scene"), first("exit"), first("deathbed")
    ended = exit_event.get("m")
    until = ended if ended is not None else float("inf")
    pid = int(start.get("pid") or 0)
    alive = last and not exit_event and procfs.same_process(pid, int(start.get("start") or 0), str(head.get("boot")))
    lacked = [str(word) for event in (scene, deathbed) for word in event.get("lacked") or ()]
    if not exit_event and not alive:
        lacked.append("exit status: the supervisor died before the command did")
    # Kernel lines are kept as they come, and once more at the end where only journalctl had them.
    lines = tuple(str(line) for e in every("kernel") for line in e.get("lines") or ())
    readable = bool(scene.get("kernel_readable")) or bool(lines)
    return Attempt(
        n=int(start.get("n") or 1),
        pid=pid,
        started=began,
        ended=ended,
        exit=build(Exit, exit_event) if exit_event else None,
        argv=tuple(head.get("argv") or ()),
        cwd=str(head.get("cwd") or ""),
        environment=head.get("environment") or {},
        limit=build(MemoryLimit, scene.get("limit")),
        budget=scene.get("budget"),
        fence=first("fence").get("path") or scene.get("fence"),
        samples=tuple(s for s in content.samples if began <= s.time <= until + 1),
        beats=tuple(b for b in content.beats if began <= b.time <= until + 1),
        kernel_log=lines if readable else None,
        kernel_pids_are_ours=bool(scene.get("kernel_pids_are_ours", True)),
        counters_before=_all(OomCounters, scene.get("counters")),
        counters_after=_all(OomCounters, deathbed.get("counters")),
        shares_cgroup=bool(scene.get("shares_cgroup")),
        danger=build(Danger, first("danger")) if first("danger") else None,
        stall=build(Stall, every("stall")[-1]) if every("stall") else None,
        splittings=_all(Splitting, every("splitting")),
        changed=_changed(start, every("report")),
        reports=tuple(every("report")),
        loop=build(Loop, every("loop")[-1]) if every("loop") else None,
        error=_python_error(every("python-error"), pid),
        notices=_all(Notice, every("signal")),
        child_deaths=_all(ChildDeath, deathbed.get("child_deaths")),
        disks=_all(Disk, deathbed.get("disks") or scene.get("disks")),
        network_errors=deathbed.get("network_errors") or {},
        open_files_limit=scene.get("open_files_limit"),
        gpus=tuple(deathbed.get("gpus") or ()),
        stdout=tail.text(run.stdout) if last else "",
        stderr=tail.text(run.stderr) if last else "",
        fatal_stacks=_fatal_stacks(run, pid),
        agent="off" if head.get("agent") == "off" else _agent_state(every("agent")),
        lacked=tuple(dict.fromkeys(lacked)),
        ended_well=any(e.get("state") == "ended" and not e.get("error") for e in every("agent") if e.get("pid") == pid),
        witnessed=bool(deathbed),
        alive=alive,
        watched=bool(head.get("watched")),
    )


def _changed(start: Event, reports: list[dict[str, Any]]) -> str | None:
    """What was to be different; and that it was not, where the saved state turned out to be another training's."""
    changed = start.get("changed")
    refused = any(report.get("kind") == "checkpoint-refused" for report in reports)
    return f"{changed}: refused, begun anew" if changed and refused else changed


def _agent_state(events: list[dict[str, Any]]) -> str:
    states = [str(e.get("state")) for e in events]
    if "awake" in states:
        return "awake"
    return "ready" if states else "absent"


def _python_error(events: list[dict[str, Any]], pid: int) -> PythonError | None:
    """The exception of the command itself; else the last of a child's, which proves less and says so."""
    own = [event for event in events if event.get("pid") == pid]
    for event in reversed(own or events):
        error = build(PythonError, event)
        if error is not None:
            told_by = "agent" if own else "child"
            return dataclasses.replace(error, frame=build(Frame, event.get("frame")), told_by=told_by)
    return None


def _fatal_stacks(run: RunDirectory, pid: int) -> str:
    """What faulthandler wrote at a fatal signal: of the main process, else of any."""
    try:
        paths = sorted(run.stacks.iterdir(), key=lambda path: path.name != f"{pid}.txt")
        texts = [path.read_text(errors="replace") for path in paths]
    except OSError:
        return ""
    for text in texts:
        if _FATAL in text:
            return text[text.rindex(_FATAL) :]
    return ""
