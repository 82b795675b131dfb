"""The user's command run up to its first training call, inside a fence, and ended there.

The agent tells what it sees and tries the batches it is asked to try; when enough is known, or the time is over, or
the fence is reached, the process is taken away with all its children. Nothing of the script runs after that call.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from io import FileIO
from typing import Any

from ..blackbox import journal
from ..blackbox.folder import Folder
from ..blackbox.pulse import Pulse
from ..machine import cgroup, procfs
from ..machine.tree import ProcessTree
from ..plan.micro_batch import Trial
from ..quick import dataclass
from . import danger, fence, launch, posture, records
from .interrupt import Interrupt
from .waiting import Waiting

TURN = 0.02  # seconds between two looks
LEAVING = 5.0  # seconds that killed processes may take to be gone
# Times a second that it had to fetch from disk since it began: two trainings that stood at a limit had 140 and 200, one
# that was far from it and took fourteen times as long as usual 0.1.
THRASHING = 50.0
STEPPING = 0.8  # of the time that a trial has may go into steps: what was measured is to be heard of, too
LAST_WORDS = (signal.SIGTERM, signal.SIGHUP)  # that end a plan as Ctrl-C does: behind what is to be taken away


@dataclass(frozen=True)
class Ask:
    """What is wanted of it next: a trial of so many rows, or some more steps of them, to note what they take."""

    rows: int
    noting: bool = False
    by: float | None = None  # when it has to be over, by our clock; None: not before the rest is


@dataclass
class Rehearsal:
    """What was heard of it."""

    facts: dict[str, Any] | None = None  # at the first training call
    came: float = 0.0  # when it came there
    tried: list[dict[str, Any]] = field(default_factory=list)
    asked: Ask | None = None  # of it last
    failed: str = ""  # what went wrong in the agent
    status: int | None = None  # how the script ended by itself
    reached: bool = False  # the fence
    late: bool = False  # its time was over
    interrupted: bool = False  # by Ctrl-C
    thrashing: bool = False  # so close to the limit that it did little but fetch its own code from disk
    unfenced: str = ""  # why there was no fence
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def trials(self) -> list[Trial]:
        """The batches that have run."""
        return [Trial(one["rows"], one["peak"], one["seconds"], one["spread"]) for one in self.tried]

    @property
    def ending(self) -> str:
        """How the script ended by itself, in words."""
        return f"status {self.status}" if (self.status or 0) >= 0 else f"signal {-(self.status or 0)}"

    @property
    def trying(self) -> int:
        """Rows of the batch that it is trying; 0: none."""
        return self.asked.rows if self.asked is not None else 0

    @property
    def noting(self) -> bool:
        """The batch has run, and some more of it is noted. That takes memory itself: to die of it means nothing."""
        return self.asked is not None and self.asked.noting

    @property
    def died_trying(self) -> bool:
        """A batch that was tried came to the limit: at the fence, or by the kernel's hand."""
        return self.facts is not None and not self.noting and (self.reached or self.status == -signal.SIGKILL)


def rehearse(
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    limit: int,
    seconds: float,
    next_ask: Callable[[Rehearsal], Ask | None],
    rows: int = 0,
    patience: float | None = None,
    spared: bool = False,
    waiting: Waiting | None = None,
    stop: Interrupt | None = None,
) -> Rehearsal:
    """Run it; `next_ask` says what to try next, None when enough is known. Output goes to stderr.

    With `rows` it is run as if the script had asked for batches of that size, and nothing else is looked at. It has
    `seconds`, or until what it is asked has to be over; from `patience` on it is ended where it is thrashing (slow
    alone is no sign of the limit). With `spared` a pipe at standard input is left to who comes behind it. `waiting` is
    told how far it has come. From its training call on, `stop` ends it with what was heard by then.
    """
    path = launch.resolve(argv[0], environment)
    given = launch.Inherited.of_this_process(launch.Before())
    posture.become_subreaper()
    with (
        _ended_in_order(),
        _input(spared) as typed,  # first, so that nothing else is opened in its place where it is closed
        records.scratch("keepfit-plan-") as folder,
        contextlib.closing(Pulse()) as pulse,
    ):
        pulse.order(limit)
        made, why_not = fence.build(f"plan-{os.getpid()}-{time.monotonic_ns()}", limit, cgroup.placement())
        # If we are killed, nothing stays frozen behind us.
        keeper = fence.post_keeper(made) if made is not None and made.freezes else None
        told = launch.trainee_environment(environment, folder.path, pulse.address)
        told |= {"KEEPFIT_PLAN": "1", "KEEPFIT_PLAN_ROWS": str(rows)}
        ours = os.getpid()

        def prepare() -> None:
            posture.die_with(ours)
            if made is not None:
                made.join()

        try:
            stuck = partial(fence.cannot_start, made, argv[0])
            pid = launch.launch(path, argv, told, launch.Wiring(typed.fileno(), 2, 2), given, prepare, stuck)
            heard = Rehearsal(unfenced="" if made is not None else str(why_not))
            listening = _Listening(heard, pid, pulse, made, folder, next_ask, keeper, waiting, stop)
            listening.until(seconds, seconds if patience is None else patience)
            return heard
        finally:
            if keeper is not None:
                os.kill(keeper, signal.SIGKILL)
                os.waitpid(keeper, 0)
            if made is not None:
                with contextlib.suppress(OSError):
                    made.let_go()
                made.remove()


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """A signal that would end us at once lets the cleaning be done first; a second one does not disturb that."""

    def leave(number: int, _frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = [number for number in LAST_WORDS if signal.getsignal(number) is signal.SIG_DFL]
    for number in before:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in before:
            signal.signal(number, signal.SIG_DFL)


def is_read_once() -> bool:
    """Standard input: what one process has read from it, no other finds there."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def _input(spared: bool) -> FileIO:
    """Its standard input. What would be typed is not asked for: a prompt finds the end. A file is there for each
    process, from where we stand in it."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:  # closed
        return FileIO(os.devnull)
    if os.isatty(0) or (spared and is_read_once()):
        return FileIO(os.devnull)
    if stat.S_ISREG(kind):
        with contextlib.suppress(OSError):  # another's, that we may not open again
            file = FileIO("/proc/self/fd/0")
            file.seek(os.lseek(0, 0, os.SEEK_CUR))
            return file
    return FileIO(0, closefd=False)


class _Listening:
    def __init__(
        self, heard: Rehearsal, pid: int, pulse: Pulse, made: fence.Fence | None, folder: Folder,
        next_ask: Callable[[Rehearsal], Ask | None], keeper: int | None, waiting: Waiting | None,
        stop: Interrupt | None,
    ) -> None:  # fmt: skip
        self._pid, self._pulse, self._fence, self._next = pid, pulse, made, next_ask
        self._folder = folder
        self._heard = heard
        self._waiting = waiting
        self._stop = stop or Interrupt()
        self._until = 0.0  # when its time is over
        self._tree = ProcessTree(pid, ignore=(keeper,) if keeper else (), adopter=os.getpid())

    def until(self, seconds: float, patience: float) -> None:
        heard, began = self._heard, time.monotonic()
        self._until = began + seconds
        try:
            while not self._enough():
                now = time.monotonic()
                heard.late = now > self._until
                heard.thrashing = now - began > min(patience, seconds) and self._thrashes(now - began)
                heard.interrupted = self._stop.came
                if heard.late or heard.thrashing or heard.interrupted:
                    break
                self._look_on(now - began)
                self._tree.discover()
                time.sleep(TURN)
        finally:
            self._end()
        heard.events, _ = journal.read(self._folder)

    def _enough(self) -> bool:
        heard = self._heard
        if (letter := self._pulse.question()) is not None and self._answer(letter):
            return True
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            heard.status = os.waitstatus_to_exitcode(status)
            return True
        if self._fence is not None and self._fence.reached():
            heard.reached = True
            return True
        return False

    def _look_on(self, passed: float) -> None:
        """While it is on its way to its training call."""
        if self._waiting is not None and self._heard.facts is None and self._waiting.is_due(passed):
            events, _ = journal.read(self._folder)
            self._waiting.look(passed, self._pid, self._pulse.phase, {str(event["event"]) for event in events})

    def _thrashes(self, passed: float) -> bool:
        self._tree.count(time.monotonic())
        return self._tree.reading().major_faults > THRASHING * passed

    def _answer(self, letter: Mapping[str, Any]) -> bool:
        """Whether that was all."""
        heard = self._heard
        if letter.get("ask") != "planned":
            self._pulse.answer()
            return False
        if heard.facts is None:
            events, _ = journal.read(self._folder)
            heard.facts = next((event for event in events if event["event"] == "plan"), None)
            heard.came = time.monotonic()
            if heard.facts is not None:
                self._stop.keep()
        heard.failed = str(letter.get("failed") or "")
        if letter.get("rows"):
            heard.tried.append(dict(letter))
        if heard.facts is not None and letter.get("untried"):
            heard.facts = {**heard.facts, "cut": letter["untried"]}
        heard.asked = self._next(heard) if heard.facts is not None and not heard.failed else None
        if (asked := heard.asked) is not None:
            letter = {"rows": asked.rows, "noting": asked.noting}
            if asked.by is not None:
                self._until = asked.by
                letter["seconds"] = max(0.0, STEPPING * (asked.by - time.monotonic()))
            self._pulse.answer(**letter)
        return asked is None

    def _end(self) -> None:
        """Itself, and everything that it has started."""
        self._tree.discover()
        pids = list(self._tree.pids)
        danger.end(pids)
        if self._fence is not None:  # in this order: what is let go at the line without a signal, the kernel kills
            with contextlib.suppress(OSError):
                self._fence.let_go()
        deadline = time.monotonic() + LEAVING  # what it had in memory is free when it is gone, not before
        while pids and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ChildProcessError):  # reaped already, or not ours to reap
                    os.waitpid(pid, os.WNOHANG)
            pids = [pid for pid in pids if procfs.stat(pid) is not None]
            time.sleep(TURN)
