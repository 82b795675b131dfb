"""A run directory read back as facts: what `why` and every detector see.

Whatever was damaged is skipped and named in `Record.lost`; reading never raises.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..facts import (
    Attempt,
    ChildDeath,
    Danger,
    Disk,
    Exit,
    Finding,
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
from . import journal, ring, shapes, tail
from .folder import Folder
from .rundir import RING, STACKS, STDERR, STDOUT, RunDirectory
from .shapes import fact, facts, number, text, texts, whole

Event = Mapping[str, Any]

MOST_ATTEMPTS = 1000  # of one run; what restarts more often than that is not told one by one
MOST_REPORTS = 5000
STACKS_FILES, STACKS_BYTES = 64, 1 << 20
_FATAL = "Fatal Python error"


def load(run: RunDirectory) -> Record:
    try:
        return _load(run)
    except OSError as error:
        return Record(run=run.id, lost=(f"the record cannot be used: {error.strerror}",))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        # Readable JSON that makes no sense: somebody else's, or damaged in an unlucky place.
        return Record(run=run.id, lost=(f"the journal makes no sense ({type(error).__name__}: {error})",))


def _load(run: RunDirectory) -> Record:
    folder = run.folder
    events, lost = journal.read(folder)
    content = ring.read(folder)
    heads = [e for e in events if e["event"] == "run"]  # one a session: a run that is resumed has several
    head = {**heads[0], **{k: heads[-1].get(k) for k in ("pid", "start", "boot")}} if heads else {}
    # In the order of the file, not of the clock: a resumed run may have changed its machine.
    starts = [index for index, e in enumerate(events) if e["event"] == "attempt"]
    if len(starts) > MOST_ATTEMPTS:
        lost.append(f"the first {len(starts) - MOST_ATTEMPTS} attempts were passed over")
    rings = _earlier_rings(folder)
    attempts = []
    for index, start in enumerate(starts):
        if index < len(starts) - MOST_ATTEMPTS:
            continue
        last = index + 1 == len(starts)
        until = len(events) if last else starts[index + 1]
        samples = _ring_of(folder, rings, index + 1, content)
        attempts.append(_attempt(folder, head, events[start], events[start:until], samples, last))
    ended = next((e.get("t") for e in reversed(journal.newest_session(events)) if e["event"] == "end"), None)
    return Record(
        run=run.id,
        name=text(head.get("name")),
        argv=texts(head.get("argv")),
        cwd=text(head.get("cwd")),
        started_at=number(head.get("t")),
        ended_at=number(ended) if ended is not None else None,
        attempts=tuple(attempts),
        findings=facts(Finding, [e for e in events if e["event"] == "finding"]),
        lost=tuple(lost) + content.lost,
        alive=any(a.alive for a in attempts) or (not attempts and _supervisor_alive(head)),
    )


def _earlier_rings(folder: Folder) -> dict[int, str]:
    """Rings that were put aside, by the attempt up to which each goes: after a reboot a run begins a new one."""
    prefix = RING + "-"
    numbered = [(name.removeprefix(prefix), name) for name in folder.names() if name.startswith(prefix)]
    return {int(word): name for word, name in numbered if word.isascii() and word.isdigit() and len(word) < 8}


def _ring_of(folder: Folder, rings: dict[int, str], attempt: int, newest: ring.RingContent) -> ring.RingContent:
    """The ring in which an attempt was sampled."""
    last = [until for until in rings if until >= attempt]
    return ring.read(folder, rings[min(last)]) if last else newest


def _supervisor_alive(head: Event) -> bool:
    return procfs.same_process(whole(head.get("pid")), whole(head.get("start")), text(head.get("boot")))


def _attempt(
    folder: Folder,
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

    def newest(name: str) -> Event:
        return next((e for e in reversed(own) if e["event"] == name), {})

    began = number(start.get("m"))
    scene, exit_event, deathbed = first("scene"), first("exit"), first("deathbed")
    ended = number(exit_event.get("m")) if exit_event else None
    until = ended if ended is not None else float("inf")
    pid = whole(start.get("pid"))
    same = procfs.same_process(pid, whole(start.get("start")), text(head.get("boot")))
    alive = last and not exit_event and same
    lacked = [word for event in (scene, deathbed) for word in texts(event.get("lacked"))]
    if not exit_event and not alive:
        lacked.append("exit status: the supervisor died before the command did")
    # Kernel lines are kept as they come, and once more at the end where only journalctl had them.
    lines = tuple(line for e in every("kernel") for line in texts(e.get("lines")))
    readable = bool(scene.get("kernel_readable")) or bool(lines)
    reports = tuple(shapes.mapping(report) for report in every("report")[-MOST_REPORTS:])
    limit = scene.get("open_files_limit")
    return Attempt(
        n=whole(start.get("n"), 1),
        pid=pid,
        started=began,
        ended=ended,
        exit=fact(Exit, exit_event) if exit_event else None,
        argv=texts(head.get("argv")),
        cwd=text(head.get("cwd")),
        environment={name: text(value) for name, value in shapes.mapping(head.get("environment")).items()},
        limit=fact(MemoryLimit, scene.get("limit")),
        budget=whole(scene.get("budget")) or None,
        fence=text(first("fence").get("path")) or text(scene.get("fence")) or None,
        samples=tuple(s for s in content.samples if began <= s.time <= until + 1),
        beats=tuple(b for b in content.beats if began <= b.time <= until + 1),
        kernel_log=lines if readable else None,
        kernel_pids_are_ours=bool(scene.get("kernel_pids_are_ours", True)),
        counters_before=facts(OomCounters, scene.get("counters")),
        counters_after=facts(OomCounters, deathbed.get("counters")),
        shares_cgroup=bool(scene.get("shares_cgroup")),
        danger=fact(Danger, first("danger") or None),
        stall=fact(Stall, newest("stall") or None),
        splittings=facts(Splitting, every("splitting")),
        changed=_changed(start, reports),
        reports=reports,
        loop=fact(Loop, newest("loop") or None),
        error=_python_error(every("python-error"), pid),
        notices=facts(Notice, every("signal")),
        child_deaths=facts(ChildDeath, deathbed.get("child_deaths")),
        disks=facts(Disk, deathbed.get("disks") or scene.get("disks")),
        network_errors={k: whole(v) for k, v in shapes.mapping(deathbed.get("network_errors")).items()},
        open_files_limit=whole(limit) if limit is not None else None,
        gpus=_gpus(deathbed.get("gpus")),
        stdout=tail.text(folder, STDOUT) if last else "",
        stderr=tail.text(folder, STDERR) if last else "",
        fatal_stacks=_fatal_stacks(folder, pid),
        agent="off" if head.get("agent") == "off" else _agent_state(every("agent")),
        lacked=tuple(dict.fromkeys(lacked)),
        ended_well=any(e.get("state") == "ended" and not e.get("error") for e in every("agent") if e.get("pid") == pid),
        witnessed=bool(deathbed),
        alive=alive,
        watched=bool(head.get("watched")),
    )


def _gpus(found: object) -> tuple[dict[str, Any], ...]:
    return tuple(shapes.mapping(one) for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()


def _changed(start: Event, reports: tuple[Event, ...]) -> str | None:
    """What was to be different; and that it was not, where the saved state turned out to be another training's."""
    changed = text(start.get("changed")) or None
    refused = any(report.get("kind") == "checkpoint-refused" for report in reports)
    return f"{changed}: refused, begun anew" if changed and refused else changed


def _agent_state(events: list[dict[str, Any]]) -> str:
    states = [e.get("state") for e in events]
    if "awake" in states:
        return "awake"
    return "ready" if states else "absent"


def _python_error(events: list[dict[str, Any]], pid: int) -> PythonError | None:
    """The exception of the command itself; else the last of a child's, which proves less and says so."""
    own = [event for event in events if event.get("pid") == pid]
    for event in reversed(own or events):
        error = fact(PythonError, event)
        if error is not None:
            return dataclasses.replace(error, told_by="agent" if own else "child")
    return None


def _fatal_stacks(folder: Folder, pid: int) -> str:
    """What faulthandler wrote at a fatal signal: of the main process, else of any."""
    try:
        stacks = folder.folder(STACKS)
        names = sorted(stacks.names(), key=lambda name: name != f"{pid}.txt")[:STACKS_FILES]
    except OSError:
        return ""
    for name in names:
        try:
            found = stacks.read(name, STACKS_BYTES).decode(errors="replace")
        except OSError:
            continue
        if _FATAL in found:
            return found[found.rindex(_FATAL) :]
    return ""
