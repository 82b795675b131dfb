"""One supervised run, put together: record, scene, fence, judge, front."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..blackbox import record as recorded
from ..blackbox.pulse import Pulse
from ..blackbox.rundir import STDERR, STDOUT, RunDirectory
from ..blackbox.tail import TailWriter
from ..conditions.reading import size
from ..facts import MemoryLimit
from ..machine import cgroup, group, interpreter
from . import conclude, fence, front, launch, policy, posture, records, scene, stage
from .judge import Judge, Subject
from .link import Link
from .options import RunOptions
from .records import Record
from .steward import Lessons
from .words import complain

# What the judge does once the record is complete: (run, runs directory) -> text for the user.
Verdict = Callable[[RunDirectory, RunOptions], str]

FILES = 24  # that front and judge hold open, and what a look needs for a moment


def supervise(options: RunOptions, environment: Mapping[str, str], verdict: Verdict) -> int:
    """Run the command to its end; returns its exit status, or minus the signal that ended it.

    Raises CannotLaunch, and nothing else of ours.
    """
    path = launch.resolve(options.argv[0], environment)
    options = _as_a_member(options, environment)
    given = launch.Inherited.of_this_process(options.before)
    record = _record(options, environment)
    boards = stage.set_stage()
    if record is None:
        return _bare(options, environment, path, boards, given)
    return Course(options, environment, path, record, verdict, given).run(boards)


def _as_a_member(options: RunOptions, environment: Mapping[str, str]) -> RunOptions:
    """In a group a rank alone cannot rejoin: the others would wait for it for ever, or it for them."""
    member = group.membership(environment)
    if member is None or not options.restarts:
        return options
    if not options.quiet:
        complain(f"this is {member}: keepfit starts nothing again here, and ends as the command ends")
    return replace(options, restarts=0)


def _record(options: RunOptions, environment: Mapping[str, str]) -> Record | None:
    if not posture.have_room_for_files(FILES):
        if not options.quiet:
            complain(
                f"no record of this run: {FILES} open files were expected to be allowed (ulimit -n); it runs plainly"
            )
        return None
    if options.continued is None:
        return records.open_record(options, environment)
    return records.reopen(options.continued, options, environment)


def _bare(
    options: RunOptions, environment: Mapping[str, str], path: str, boards: stage.Stage, given: launch.Inherited
) -> int:
    """Nothing can be recorded at all: carry the command, no more."""
    plain = front.Front(boards, None, None, None, None, given)
    plain.start(path, options.argv, launch.trainee_environment(environment))
    return plain.carry()


class Course:
    """The attempts of one run, one after the other, as long as the last one died of something that can be changed."""

    def __init__(
        self,
        options: RunOptions,
        environment: Mapping[str, str],
        path: str,
        record: Record,
        verdict: Verdict,
        given: launch.Inherited,
    ) -> None:
        self._options = options
        self._environment = environment
        self._path = path
        self._record = record
        self._verdict = verdict
        self._before = record.attempts
        found = records.newest(record.run)
        self._reached = found.number if found else 0  # the newest state as this session begins
        self._again: dict[str, Any] = {}  # what the next attempt is to change
        self._keyboard = stage.Input()
        self._pid = os.getpid()  # the front's
        self._given = given
        self._isolated = "S" in interpreter.options_of_file(path, options.argv)
        self._placement = cgroup.placement()  # ours, before any fence makes us step aside

    def run(self, boards: stage.Stage) -> int:
        record, tails = self._record, {}
        for name in (STDOUT, STDERR):
            with contextlib.suppress(OSError):
                tails[name] = TailWriter(record.run.folder, name)
        posture.become_subreaper()
        self._score = posture.shy_from_the_kernel()
        try:
            for number in itertools.count(1):
                boards.tails = tails
                try:
                    status, again = self._attempt(boards, number)
                except launch.CannotLaunch:
                    if number == 1 and not self._before:
                        record.run.remove()
                    raise
                if again is None:
                    return status
                self._again = again
                time.sleep(float(again.get("pause") or 0.0))
                self._keyboard.rewind()
                boards = stage.set_stage()
            raise AssertionError("unreachable")
        finally:
            if not record.kept:
                record.run.remove()
                with contextlib.suppress(OSError):
                    os.rmdir(record.run.path.parent)

    @property
    def _lessons(self) -> Lessons:
        return Lessons(self._again.get("at_most") or {}, bool(self._again.get("lean")))

    def _attempt(self, boards: stage.Stage, number: int) -> tuple[int, dict[str, Any] | None]:
        """One attempt: (what `supervise` returns, what the next attempt is to change or None)."""
        options, record, run = self._options, self._record, self._record.run
        pulse = _pulse(record)
        if pulse is not None and self._again.get("fruitless"):
            pulse.want_state()  # as soon as a step is done: so that the next death, however early, is not in vain too
        made, path, argv, why_no_fence = self._fenced(number)
        keeper = fence.post_keeper(made) if made is not None and made.freezes else None
        placement = self._placement
        if made is not None:
            placement = cgroup.Placement((made.level, *placement.levels))
        before = scene.before(placement, options.memory, str(options.runs), self._environment, self._given.open_files)
        if number == 1:
            self._remark(before.limit, made.level.path if made else None)
        if why_no_fence:
            before.lacked.append(f"exact danger line: {why_no_fence}; the budget was held by sampling")
        opening = scene.opening(before, options.memory, made.level.path if made else None)
        ours, theirs = Link.pair()
        others = (keeper,) if keeper is not None else ()
        restarts = options.restarts - number + 1 if self._keyboard.can_be_read_again else 0

        def appoint(parent: int) -> Judge:
            return Judge(
                options, run, record.journal, before, theirs, pulse, made, boards, parent, others,
                self._lessons, restarts,
            )  # fmt: skip

        judge = self._fork_judge(boards, appoint, ours, theirs)
        theirs.close()
        carrier = front.Front(boards, record.journal, ours if judge else None, judge, made, self._given)
        try:
            carrier.start(
                path, argv, self._for_the_trainee(pulse, number), self._score, self._before + number,
                self._again.get("changed"), opening,
            )  # fmt: skip
        except launch.CannotLaunch:
            ours.close()
            if made is not None:
                made.remove()
            raise
        status = carrier.carry()
        ours.close()
        if pulse is not None:
            pulse.close()
        if not carrier.judged and carrier.again is None:  # the judge died, or reckoned with another attempt
            with contextlib.suppress(Exception):
                if text := self._verdict(run, options):
                    carrier.say(text)
                conclude.file_away(run)
        return status, carrier.again

    def _remark(self, limit: MemoryLimit | None, own: str | None) -> None:
        """A budget beyond what there is holds nobody to anything. (Our `own` cgroup rounds it down to whole pages.)"""
        budget = self._options.memory
        if budget is None or limit is None or budget <= limit.bytes or self._options.quiet:
            return
        if own is not None and limit.path == own:
            return
        complain(
            f"--memory {size(budget)} is more than there is: {size(limit.bytes)}, {limit.source}; that is the limit"
        )

    def _fenced(self, number: int) -> tuple[fence.Fence | None, str, tuple[str, ...], str]:
        """(the fence, the file to execute, its arguments, why there is no fence)."""
        options, run = self._options, self._record.run
        if options.memory is None:
            return None, self._path, options.argv, ""
        name = run.id if self._before + number == 1 else f"{run.id}-{self._before + number}"  # the old one may be busy
        made, why_not = fence.build(name, options.memory, self._placement)
        prefix = fence.by_systemd(run.id, options.memory, self._environment) if made is None else None
        if prefix is not None:
            return made, prefix[0], (*prefix, *options.argv), why_not
        return made, self._path, options.argv, why_not

    def _for_the_trainee(self, pulse: Pulse | None, number: int) -> dict[str, str]:
        options, run = self._options, self._record.run
        states = str(run.checkpoints) if "checkpoint" in options.guards else None
        resumed = "forced" if options.force_resume else "asked" if options.continued and number == 1 else "own"
        if number == 1 and options.continued is None:
            resumed = ""
        address = pulse.address if pulse else None
        numbers = {
            "on_nan": options.on_nan,
            "hidden": options.on_nan in ("skip", "rollback"),
            "clip": options.clip,
            "bad_sample": options.on_bad_sample,
            "keep": options.keep,
            "batches": str(run.batches),
        }
        return launch.trainee_environment(
            self._environment, str(run.path), address, states, resumed, self._record.seed, self._before + number,
            numbers if "numbers" in options.guards else None, self._lessons.lean, self._isolated,
        )  # fmt: skip

    def _fork_judge(self, boards: stage.Stage, appoint: Callable[[int], Judge], ours: Link, theirs: Link) -> int | None:
        record, parent = self._record, os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            record.journal.write("trouble", what=f"no judge: {error.strerror}")
            return None
        if pid:
            return pid
        try:
            ours.close()
            self._given.let_go()
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
                again = self._goes_again(judge, subject, theirs)
                if not again:
                    text = self._verdict(record.run, self._options)
                    judge.say("" if judge.refused else text, verdict=True)
                    record.journal.write("end")
                theirs.send(done=True)
                if not again and record.kept:
                    conclude.file_away(record.run)
        except BaseException as error:
            _judge_failed(record, theirs, error)
        finally:
            os._exit(0)
        return None

    def _goes_again(self, judge: Judge, subject: Subject, link: Link) -> bool:
        """Whether it died of something that can be changed or gone past: then the front is told to start again."""
        if link.closed or judge.ended_well:
            return False
        death = conclude.revisit(self._record.run)
        if death.outcome != "died" or self._asked_to_end():
            return False
        smaller = judge.changes() if policy.wants_less_memory(death) else None
        same = int(self._again.get("fruitless") or 0) if self._again.get("cause") == death.cause else 0
        resumes = "checkpoint" in self._options.guards
        newest = records.newest(self._record.run) if resumes else None
        reached = int(self._again.get("reached") or self._reached)
        trained = judge.trained or bool(self._again.get("trained"))  # now, or in an attempt before
        standing = policy.Standing(death.cause, newest, reached, same, training=resumes and trained)
        decided = policy.another(standing, (smaller[1] or None) if smaller else None)
        if decided is None:
            return False
        if not judge.may_go_again:  # no attempt is left, or what was typed or piped in is gone
            if self._options.restarts and not self._keyboard.can_be_read_again:
                judge.say("keepfit: not started again: its standard input was read and cannot be rewound")
            return False
        if smaller and smaller[1]:
            judge.forget_choice()
        judge.end_the_rest()
        pause = f" in {decided.pause:.0f} s" if decided.pause else ""
        told = f"keepfit: attempt {subject.attempt} died ({death.cause}: {death.summary}); again{pause}"
        judge.say(f"{told}, {decided.changed}; to stop for good: Ctrl-C, or kill {self._pid}")
        at_most = smaller[0] if smaller else self._lessons.at_most
        lean = self._lessons.lean or bool(smaller and smaller[1])
        link.send(
            again={"at_most": dict(at_most), "lean": lean, "changed": decided.changed, "pause": decided.pause,
                   "cause": death.cause, "fruitless": decided.fruitless, "trained": trained,
                   "reached": newest.number if newest else 0}
        )  # fmt: skip
        return True

    def _asked_to_end(self) -> bool:
        """Whether somebody has asked keepfit itself to end: then nothing is started again."""
        notices = recorded.load(self._record.run).last.notices
        return any(notice.signal in front.ENDING for notice in notices)


def _pulse(record: Record) -> Pulse | None:
    try:
        return Pulse()
    except OSError as error:  # no memfd (an old kernel, a tight sandbox): no heartbeats, all else works
        record.journal.write("trouble", what=f"no pulse: {error.strerror}")
        return None


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
