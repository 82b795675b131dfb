"""The judge: samples, records, guards and explains. It is forked from the front and may outlive it."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from ..blackbox import ring
from ..blackbox.follower import JournalFollower
from ..blackbox.journal import JournalWriter
from ..blackbox.pulse import Pulse
from ..blackbox.rundir import STDERR, STDOUT, RunDirectory
from ..blackbox.shapes import whole
from ..conditions.process.hang import Watchfulness
from ..facts import Danger, Exit, Finding, Sample, Stall, as_json
from ..machine import pidfd, procfs
from ..machine.tree import ProcessTree, TreeReading
from ..quick import dataclass
from . import danger, fence, scene
from .calm import Calm
from .ending import Ending
from .importing import Import
from .launch import USAGE
from .lines import Lines
from .link import Link
from .lookout import Lookout
from .options import RunOptions
from .planned import PlannedRestart
from .relay import Poller, Relay
from .stage import Stage
from .steward import Lessons, Steward
from .telling import Telling
from .vigil import Vigil, written_at

STACKS_WAIT = 1.0  # seconds to wait for the stacks of a process that is about to be ended
FENCE_RESTS = 0.01  # seconds between two looks at a fence that keeps calling


@dataclass
class Subject:
    """The command under watch."""

    pid: int
    start: int
    attempt: int = 1
    watched: bool = False  # attached to, not started: read-only


class Judge:
    """One attempt, from its start to its verdict."""

    def __init__(
        self,
        options: RunOptions,
        run: RunDirectory,
        journal: JournalWriter,
        before: scene.Scene,
        link: Link | None,
        pulse: Pulse | None = None,
        made: fence.Fence | None = None,
        stage: Stage | None = None,
        adopter: int | None = None,
        others: tuple[int, ...] = (),
        lessons: Lessons | None = None,
        restarts: int = 0,
    ) -> None:
        self._options = options
        self._run = run
        self._journal = journal
        self._scene = before
        self._link = link
        self._pulse = pulse
        self._fence = made
        self._stage = stage
        self._relay: Relay | None = None
        self._adopter = adopter
        self._not_the_commands = (os.getpid(), *others)
        self._lessons = lessons or Lessons()
        self.may_go_again = restarts > 0
        self.refused = False  # it was to be resumed, and is another training: one line says so
        self._planned: PlannedRestart | None = None
        self._steward: Steward | None = None
        self._telling = Telling(journal, self.say)
        self._import = Import(pulse, options.memory)
        self._exit: Exit | None = None
        self._fence_rests_until = 0.0

    # --- life ---------------------------------------------------------------------------------------

    def run(self, subject: Subject) -> Exit | None:
        self._begin(subject)
        self._loop()
        self._finish()
        return self._exit

    def _begin(self, subject: Subject) -> None:
        self._subject = subject
        self._tree = ProcessTree(subject.pid, ignore=self._not_the_commands, adopter=self._adopter)
        self._ending = Ending(subject.pid, self._tree, self._journal)
        self._pidfd = pidfd.open_pid(subject.pid)
        self._follower = JournalFollower(self._run.folder)
        self._vigil = Vigil(subject.pid, self._run.folder, self._options.hang_after)
        if self._fence is not None and procfs.stat(subject.pid) and subject.pid not in self._fence.level.members:
            self._journal.write(
                "trouble", what="the command could not enter its cgroup; its budget is held by sampling"
            )
            self._fence.remove()
            self._fence = None
        self._lookout = Lookout(self._tree, self._scene, self._journal, self._open_ring(), self._pulse, self._fence)
        self._calm = Calm(self._scene.limit.bytes if self._scene.limit else None, self._pulse)
        self._draw_lines()
        self._appoint_steward()

    def _open_ring(self) -> ring.RingWriter | None:
        try:
            return ring.RingWriter(self._run.folder)
        except OSError as error:
            self._journal.write("trouble", what=f"no ring: {error.strerror}")
            return None

    def _draw_lines(self) -> None:
        started = not self._subject.watched  # attached to one reads, and holds it to nothing
        guarded = started and "memory" in self._options.guards
        budget = self._options.memory if started else None
        self._lines = Lines(budget, self._scene.limit, self._tree, self._fence, guarded)

    def _appoint_steward(self) -> None:
        limit = self._scene.limit
        if self._pulse is None or limit is None or "memory" not in self._options.guards or self._subject.watched:
            return
        source = "--memory" if limit.bytes == self._options.memory else limit.source
        self._steward = Steward(
            limit.bytes, source, self._pulse, self._journal, self._run.path.parent, self._telling, self._lessons
        )
        self._planned = PlannedRestart(self._pulse, self._run)

    def _loop(self) -> None:
        due = time.monotonic()
        while self._exit is None:
            now = time.monotonic()
            if now >= due:
                reading, sample = self._lookout.look(now, self._lines.measured)
                interval = self._lines.interval(self._lookout.interval)
                due = max(due + interval, now + interval / 2)
                if self._lines.is_close or self._import.is_measured or self._calm.is_over(now, sample.use):
                    self._lookout.drain_pulse()
                    self._guard(now, reading)
                    self._attend(sample)
                if self._lookout.detailed:
                    self._adopt_scope()
                    self._watch_over(sample)
                self._give_up_on_unkillable(now)
            self._wait(due)
        self._with_steward(Steward.look_back)

    def _adopt_scope(self) -> None:
        """systemd moves the command into its scope a while after the start; until then it is sampled."""
        if self._fence is not None or not self._options.memory or self._subject.watched:
            return
        self._fence = self._lookout.fence = fence.adopt(self._subject.pid, self._run.id, self._options.memory)
        if self._fence is not None:
            self._journal.write("fence", path=self._fence.level.path)
            self._draw_lines()

    def _wait(self, until: float) -> None:
        poll = Poller()
        if self._link is not None and not self._link.closed:
            poll.want(self._link.fileno(), select.POLLIN)
        listening = not self._ending.is_decided and time.monotonic() >= self._fence_rests_until
        if self._fence is not None and self._fence.attention is not None and listening:
            poll.want(self._fence.attention, self._fence.events)
        alone = self._link is None or self._link.closed
        if alone and self._pidfd is not None:
            poll.want(self._pidfd, select.POLLIN)
        if self._relay is not None:
            self._relay.register(poll)
        ready = poll.wait(until - time.monotonic())
        if self._fence is not None and ready.get(self._fence.attention or -1):
            self._at_the_fence()
        if self._link is not None and ready.get(self._link.fileno() if not self._link.closed else -1):
            self._listen()
        if self._relay is not None:
            self._relay.pump(ready)
        if alone:
            self._look_for_the_end(bool(self._pidfd is not None and ready.get(self._pidfd)))

    def _listen(self) -> None:
        assert self._link is not None
        while (message := self._link.receive()) is not None:
            if "exited" in message:
                self._exit = Exit(**message["exited"])
            if "unread" in message:
                # The user's reader left: with our copy closed too, the command learns it as it would alone.
                os.close(int(message["unread"]))
        if self._link.closed and self._exit is None:
            self._front_died()

    def _front_died(self) -> None:
        self._journal.write("trouble", what="the front died; the judge carries the output on")
        if self._stage is not None:
            self._stage.restore_terminal()
            self._relay = self._stage.taken_over()
            if self._stage.terminal_is_gone():  # the front may have died before it could pass the hang-up on
                danger.hang_up([self._subject.pid])
            if danger.is_stopped(self._subject.pid):
                danger.resume([self._subject.pid])  # Ctrl-Z stopped it together with the front, which is gone

    def _look_for_the_end(self, signalled: bool) -> None:
        """Without the front nobody else sees the end: by pidfd where the kernel gives it, else by /proc."""
        gone = signalled or (
            self._pidfd is None and not procfs.same_process(self._subject.pid, self._subject.start, procfs.boot_id())
        )
        if not gone:
            return
        known = pidfd.exit_soon(self._pidfd, self._subject.pid)
        self._exit = known or Exit()
        self._journal.write("exit", seen_by="judge", **as_json(self._exit))
        if known is None:
            self._scene.lacked.append("exit status: it was not our child, and this kernel does not tell")

    # --- guarding -------------------------------------------------------------------------------------

    def _guard(self, now: float, reading: TreeReading) -> None:
        if self._ending.is_decided:
            return
        if self._import.is_measured:
            if (taken := self._import.outcome(now, self._fence)) is not None:
                self._refuse_budget(taken)
            return
        if (found := self._lines.check(now, reading, self._lookout.memory)) is not None:
            self._end_at_the_line(found)

    def _attend(self, sample: Sample) -> None:
        found = self._with_steward(lambda steward: steward.attend(sample, self._lookout.last_beat, self.may_go_again))
        if self._steward is None or self._planned is None or self._ending.is_decided:
            return
        steward = self._steward
        due = self._planned.look(sample.time, found, lambda: steward.next_rows(sample.use) is not None)
        if due is not None:
            self._end_at_the_line(due)

    def _with_steward(self, work: Callable[[Steward], Danger | None]) -> Danger | None:
        """What fails in it costs the run the steward, and nothing else."""
        try:
            return work(self._steward) if self._steward is not None else None
        except Exception as error:
            self._journal.write("trouble", what=f"the steward failed: {error!r}")
            self._steward = None
            return None

    @property
    def ended_well(self) -> bool:
        return self._exit is not None and self._exit.status == 0

    @property
    def trained(self) -> bool:
        """Whether it was one: what is no training is not started again by itself."""
        beat = self._lookout.last_beat
        return beat is not None and (beat.steps > 0 or beat.phase in ("train", "trace", "validation"))

    def changes(self) -> tuple[dict[str, int], str] | None:
        """What the next attempt would do differently: (rows at most by step, in words); None: nothing."""
        if self._steward is None or self._planned is None:
            return None
        return self._steward.as_before() if self._planned.is_saved else self._steward.changes(self._subject.attempt)

    def end_the_rest(self) -> None:
        self._ending.of_the_rest()

    def forget_choice(self) -> None:
        if self._steward is not None:
            self._steward.forget()

    def _at_the_fence(self) -> None:
        assert self._fence is not None
        if self._fence.how == "cgroup-v1" and self._fence.attention is not None:
            try:
                os.read(self._fence.attention, 8)
            except BlockingIOError:
                return
        found = self._lines.check_fence(time.monotonic())
        if found is not None and not self._ending.is_decided:
            self._end_at_the_line(found)
        # Page cache that fills the cgroup makes such events by the thousand: every tick looks anyway.
        self._fence_rests_until = time.monotonic() + FENCE_RESTS

    def _end_at_the_line(self, found: Danger) -> None:
        """Frozen; now what it was doing goes into the record, and then it ends."""
        if self._import.is_meant(found):
            if not self._import.goes_on(found, self._fence):
                self._refuse_budget(found)
            return
        self._ending.is_decided = True
        self._lookout.look(time.monotonic(), use=found.use_bytes)
        self._journal.write("danger", **as_json(found))
        self._ending.carry_out(self._fence)

    def _refuse_budget(self, found: Danger) -> None:
        self._ending.is_decided, self._steward = True, None
        self._journal.write("danger", **as_json(replace(found, how="import")))
        if self._link is not None:
            self._link.send(status=USAGE)
        self._ending.carry_out(self._fence)

    def _give_up_on_unkillable(self, now: float) -> None:
        """What cannot be ended is left behind."""
        held_up_by = self._ending.held_up_by(now)
        if held_up_by is None or self._exit is not None:
            return
        self._scene.lacked.append(f"its end: killed, but still waiting in {held_up_by}")
        self._exit = Exit(signal=signal.SIGKILL)
        self._journal.write("exit", seen_by="nobody", **as_json(self._exit))
        if self._link is not None:
            self._link.send(abandon=True)

    def _watch_over(self, sample: Sample) -> None:
        self._hear_the_agent()
        if "hang" not in self._options.guards or self._ending.is_decided:
            return
        if self._lookout.last_beat is not None:
            self._vigil.beat(self._lookout.last_beat)
        already = self._vigil.suspected
        output = written_at(self._run.folder, STDOUT, STDERR)
        found, stall = self._vigil.look(sample, self._lookout.doing, output)
        if stall is None:
            return
        if found is Watchfulness.SUSPECTED and not already:
            self._vigil.suspected = True
            self._warn(stall)
        elif found is Watchfulness.HANG and not self._subject.watched:
            self._end_hung(stall)

    def _hear_the_agent(self) -> None:
        """What it has told through the journal since."""
        for event in self._follower.new_events():
            if event.get("event") == "agent" and isinstance(event.get("stack_signal"), int):
                self._vigil.armed(whole(event.get("pid")), event["stack_signal"], whole(event.get("stack_fd"), -1))
            if event.get("event") == "report":
                if event.get("kind") == "checkpoint-refused" and event.get("asked"):
                    self.refused = True
                self._telling.report(event)

    def _warn(self, stall: Stall) -> None:
        message = f"no step for {stall.silent_seconds:.0f} s; its stacks are in the record, nothing was stopped"
        self._telling.note(Finding("KF504", "hang", "warning", "watch", message, data={"stall": as_json(stall)}))

    def _end_hung(self, stall: Stall) -> None:
        self._ending.is_decided = True
        deadline = time.monotonic() + STACKS_WAIT
        stacks = stall.stacks
        while not stacks and time.monotonic() < deadline:
            stacks = self._vigil.stacks_by(time.monotonic())
            time.sleep(0.02)
        self._journal.write("stall", **as_json(replace(stall, stacks=stacks)))
        self._ending.carry_out(self._fence)

    # --- the end --------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """The exit is known: close the record and say why."""
        self._lookout.drain_pulse()
        self._hear_the_agent()
        closing = scene.closing(self._scene, self._tree)
        if self._lookout.gpus is not None:
            closing["gpus"] = self._lookout.gpus
        if lines := closing.pop("kernel_lines"):
            self._journal.write("kernel", lines=lines)
        self._journal.write("deathbed", **closing)
        if self._relay is not None:
            self._relay.drain(5.0)
        self._lookout.close()
        if self._fence is not None:
            self._fence.remove()

    def say(self, text: str, verdict: bool = False) -> None:
        """A line for the user: through the front, which knows the terminal's mode, or directly."""
        if not text or (self._options.quiet and not verdict):
            return
        if self._link is not None and not self._link.closed:
            self._link.send(say=text)
        else:
            try:
                os.write(2, text.encode(errors="backslashreplace") + b"\n")
            except OSError:
                return  # nobody is reading any more
