"""One supervised run, put together: record, scene, fence, judge, front."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _version
from ..blackbox import journal as journal_format
from ..blackbox import secrets
from ..blackbox.journal import JournalWriter
from ..blackbox.pulse import Pulse
from ..blackbox.rundir import RunDirectory
from ..blackbox.tail import TailWriter
from ..machine import cgroup, procfs
from . import conclude, fence, front, launch, posture, scene, stage
from .judge import Judge, Subject
from .link import Link
from .options import RunOptions

# Deaths after which a smaller micro-batch may help: for want of memory, or as libraries crash when refused some.
CRASHES = frozenset({"segfault", "abort"})
RETRIED = frozenset({"memory_budget", "cgroup_oom", "host_oom", "allocation_failed"}) | CRASHES

# What the judge does once the record is complete: (run, runs directory) -> text for the user.
Verdict = Callable[[RunDirectory, RunOptions], str]


@dataclass
class Record:
    run: RunDirectory
    journal: JournalWriter
    kept: bool  # False: in a temporary place, gone when the run ends


def open_record(options: RunOptions) -> Record | None:
    """A new run directory; where the runs directory cannot be written, a temporary one, and that is said."""
    try:
        run = RunDirectory.create(options.runs)
        journal = JournalWriter(run.journal)
        if journal.failure:
            raise OSError(None, journal.failure)
        return Record(run, journal, kept=True)
    except OSError as error:
        front.complain(
            f"no record of this run will be kept: {options.runs} cannot be written "
            f"({error.strerror or error}); the command runs all the same"
        )
    try:
        run = RunDirectory.create(Path(tempfile.mkdtemp(prefix="keepfit-")))
        return Record(run, JournalWriter(run.journal), kept=False)
    except OSError:
        return None


def write_head(record: Record, options: RunOptions, environment: Mapping[str, str], watched: bool = False) -> None:
    own = procfs.stat(os.getpid())
    record.journal.write(
        "run",
        version=journal_format.VERSION,
        keepfit=_version.__version__,
        id=record.run.id,
        name=options.name,
        argv=secrets.mask_argv(options.argv),
        cwd=scene.cwd(),
        environment=secrets.allowed_environment(environment),
        pid=os.getpid(),
        start=own.start if own else 0,
        boot=procfs.boot_id(),
        budget=options.memory,
        guards=sorted(options.guards),
        agent="off" if environment.get("KEEPFIT_DISABLE") == "1" else "on",
        watched=watched,
    )


def supervise(options: RunOptions, environment: Mapping[str, str], verdict: Verdict) -> int:
    """Run the command to its end; returns its exit status. Raises CannotLaunch, and nothing else of ours."""
    stage.fill_standard_descriptors()
    path = launch.resolve(options.argv[0], environment)
    record = open_record(options)
    boards = stage.set_stage()
    if record is None:
        return _bare(options, environment, path, boards)
    write_head(record, options, environment)
    return _recorded(options, environment, path, boards, record, verdict)


def _bare(options: RunOptions, environment: Mapping[str, str], path: str, boards: stage.Stage) -> int:
    """Nothing can be recorded at all: carry the command, no more."""
    plain = front.Front(boards, None, None, None, None)
    plain.start(path, options.argv, launch.trainee_environment(environment, None, None))
    return plain.carry()


def _recorded(
    options: RunOptions,
    environment: Mapping[str, str],
    path: str,
    boards: stage.Stage,
    record: Record,
    verdict: Verdict,
) -> int:
    """Attempt after attempt, as long as the last one died of something that can be changed."""
    tails = {}
    for name, where in (("stdout", record.run.stdout), ("stderr", record.run.stderr)):
        with contextlib.suppress(OSError):
            tails[name] = TailWriter(where)
    posture.become_subreaper()
    score = posture.shy_from_the_kernel()
    placement = cgroup.placement()  # ours, before any fence makes us step aside
    keyboard = stage.Input()
    again: dict[str, Any] = {}
    try:
        for attempt in itertools.count(1):
            boards.tails = tails
            try:
                status, wanted = _attempt(
                    options, environment, path, boards, record, verdict, score, attempt, again, placement, keyboard
                )
            except launch.CannotLaunch:
                if attempt == 1:
                    shutil.rmtree(record.run.path, ignore_errors=True)
                raise
            if wanted is None:
                return status
            again = wanted
            keyboard.rewind()
            boards = stage.set_stage()
        raise AssertionError("unreachable")
    finally:
        if not record.kept:
            shutil.rmtree(record.run.path.parent, ignore_errors=True)


def _attempt(
    options: RunOptions,
    environment: Mapping[str, str],
    path: str,
    boards: stage.Stage,
    record: Record,
    verdict: Verdict,
    score: int | None,
    attempt: int,
    again: Mapping[str, Any],
    placement: cgroup.Placement,
    keyboard: stage.Input,
) -> tuple[int, dict[str, Any] | None]:
    """One attempt: (exit status, what the next attempt is to change or None)."""
    run = record.run
    pulse = _pulse(record)
    argv, made = options.argv, None
    why_no_fence = ""
    if options.memory is not None:
        name = run.id if attempt == 1 else f"{run.id}-{attempt}"  # the old one may still be busy ending
        made, why_no_fence = fence.build(name, options.memory, placement)
        prefix = fence.by_systemd(run.id, options.memory, environment) if made is None else None
        if prefix is not None:
            path, argv = prefix[0], (*prefix, *options.argv)
    keeper = _post_keeper(made) if made is not None and made.freezes else None
    if made is not None:
        placement = cgroup.Placement((made.level, *placement.levels))
    before = scene.before(placement, options.memory, str(options.runs), environment)
    if why_no_fence:
        before.lacked.append(f"exact danger line: {why_no_fence}; the budget was held by sampling")
    ours, theirs = Link.pair()
    others = (keeper,) if keeper is not None else ()

    def appoint(parent: int) -> Judge:
        return Judge(
            options, run, record.journal, before, theirs, pulse, made, boards, parent, others, again.get("at_most")
        )

    judge = _fork_judge(options, record, boards, appoint, ours, theirs, verdict, keyboard.can_be_read_again)
    theirs.close()
    carrier = front.Front(boards, record.journal, ours if judge else None, judge, made)
    trainee = launch.trainee_environment(environment, str(run.path), pulse.address if pulse else None)
    try:
        carrier.start(path, argv, trainee, score, attempt, again.get("changed"))
    except launch.CannotLaunch:
        ours.close()
        if made is not None:
            made.remove()
        raise
    status = carrier.carry()
    ours.close()
    if pulse is not None:
        pulse.close()
    if not carrier.judged or carrier.called_off:  # the judge died, or reckoned with another attempt
        with contextlib.suppress(Exception):
            if text := verdict(run, options):
                carrier.say(text)
    return status, carrier.again


def _post_keeper(made: fence.Fence) -> int | None:
    """A process that waits for all the others of keepfit to be gone, and then opens the fence.

    A v1 fence freezes the command at its limit until somebody acts. If front and judge are killed together
    nobody would, for ever.
    """
    watched, _held = os.pipe2(os.O_CLOEXEC)  # the other end stays open in front and judge, and nowhere else
    try:
        pid = os.fork()
    except OSError:
        return None
    if pid:
        os.close(watched)
        return pid
    try:
        os.setsid()
        posture.be_called("keepfit-keeper")
        posture.ignore_terminal_signals()
        os.dup2(watched, 3)
        os.closerange(4, 4096)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)
        os.read(3, 1)
        made.let_go()
        while made.level.members:  # nobody else is left to take the cgroup away
            time.sleep(1)
        made.remove()
    except BaseException:
        pass  # the fence is gone already, which is as good
    finally:
        os._exit(0)
    return None


def _pulse(record: Record) -> Pulse | None:
    try:
        return Pulse()
    except OSError as error:  # no memfd (an old kernel, a tight sandbox): no heartbeats, all else works
        record.journal.write("trouble", what=f"no pulse: {error.strerror}")
        return None


def _fork_judge(
    options: RunOptions,
    record: Record,
    boards: stage.Stage,
    appoint: Callable[[int], Judge],
    ours: Link,
    theirs: Link,
    verdict: Verdict,
    may_go_again: bool,
) -> int | None:
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        record.journal.write("trouble", what=f"no judge: {error.strerror}")
        return None
    if pid:
        return pid
    try:
        ours.close()
        os.setsid()
        posture.be_called("keepfit-judge")
        posture.step_aside()
        posture.ignore_terminal_signals()
        # The command's ends of the pipes must not stay open here, or their end would never be seen.
        for fd in boards.ours_to_close:
            os.close(fd)
        subject = _told(theirs)
        if subject is not None:
            judge = appoint(parent)
            judge.run(subject)
            if not may_go_again or not _goes_again(judge, record, subject, theirs):
                judge.say(verdict(record.run, options), verdict=True)
                record.journal.write("end")
            theirs.send(done=True)
    except BaseException as error:
        _judge_failed(record, theirs, error)
    finally:
        os._exit(0)
    return None


def _goes_again(judge: Judge, record: Record, subject: Subject, link: Link) -> bool:
    """Whether it died for want of memory and something can be changed: then the front is told to start again."""
    wanted = judge.changes()
    if wanted is None or link.closed:
        return False
    death = conclude.revisit(record.run)
    if death.outcome != "died" or death.cause not in RETRIED:
        return False
    if not judge.may_help(death):
        return False
    judge.forget_choice()
    judge.end_the_rest()
    at_most, changed = wanted
    judge.say(f"keepfit: attempt {subject.attempt} died ({death.cause}: {death.summary}); again, with {changed}")
    link.send(again={"at_most": at_most, "changed": changed})
    return True


def _judge_failed(record: Record, link: Link, error: BaseException) -> None:
    import traceback

    record.journal.write("trouble", what="the judge failed", error=traceback.format_exc())
    link.send(say=f"keepfit: the recorder failed ({error!r}); the command is not affected")


def _told(link: Link) -> Subject | None:
    """Wait for the front to say whom to watch; None when it could not launch."""
    import select

    while True:
        select.select([link.fileno()], [], [])
        message = link.receive()
        if message is not None and "started" in message:
            return Subject(int(message["started"]), int(message["start"]), int(message.get("attempt") or 1))
        if link.closed:
            return None
