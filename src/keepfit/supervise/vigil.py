"""The vigil: is the training still moving? It gathers the facts; the rule is in `conditions/process/hang`."""

from __future__ import annotations

import os

from ..blackbox.folder import Folder
from ..blackbox.rundir import STACKS
from ..conditions.process.hang import Stillness, Watchfulness, assess
from ..facts import Beat, Sample, Stall
from ..machine import procfs
from ..quick import dataclass

DUMP_APART = 30.0  # seconds between two stack dumps that are compared
MOST = 16 << 20  # bytes of a process' stacks that are looked at
IDLE_CPU = 0.05  # of one core: below this a tree does not compute, it waits


@dataclass(frozen=True)
class Armed:
    number: int  # of the signal
    fd: int


@dataclass
class _Marks:
    """Progress counters at one moment."""

    cpu: float
    io: int
    faults: int
    output: int


def written_at(folder: Folder, *names: str) -> int:
    """A number that grows whenever one of the files is written to."""
    total = 0
    for name in names:
        try:
            total += folder.stat(name).st_mtime_ns
        except OSError:
            continue
    return total


class Vigil:
    """Follows one attempt. `look` is called about once a second."""

    def __init__(self, pid: int, folder: Folder | None, hang_after: float | None) -> None:
        self._pid = pid
        self._folder = folder
        self._hang_after = hang_after
        self._armed: dict[int, Armed] = {}
        self._marks: tuple[float, _Marks] | None = None
        self._moved = 0.0
        self._turned = (0.0, "")  # when it was first seen doing what it does
        self._excused = 0.0  # when it was last seen where it need not move
        self._beat: Beat | None = None
        self._dumps: list[tuple[float, str]] = []
        self._asked: tuple[float, int] | None = None
        self._window: list[Sample] = []
        self.suspected = False

    def armed(self, pid: int, number: int, fd: int) -> None:
        """An interpreter told which signal makes it write its stacks, and to which descriptor."""
        self._armed[pid] = Armed(number, fd)

    def beat(self, beat: Beat) -> None:
        if self._beat is None or beat.steps > self._beat.steps or beat.phase != self._beat.phase:
            self._dumps.clear()
            self.suspected = False
        self._beat = beat

    def look(self, sample: Sample, doing: str, output: int) -> tuple[Watchfulness, Stall | None]:
        now = sample.time
        marks = _Marks(sample.cpu, sample.read_bytes + sample.write_bytes, sample.faults, output)
        self._window = [old for old in self._window if now - old.time <= 10.0] + [sample]
        excused = self._excuse(sample.state)
        if excused is not None:  # what it has waited at a prompt is no silence of the training's own
            self._excused = now
            self._dumps.clear()
        if self._marks is None or excused is not None or self._progressed(now, marks):
            self._marks = (now, marks)
            self._moved = now
        if doing != self._turned[1]:
            self._turned = (now, doing)
        beat = self._beat
        self._collect(now)
        still = Stillness(
            phase=beat.phase if beat else None,
            doing=doing,
            # Going over to something else is a sign of life: a callback of 12 s that has just come back is no stall.
            silent=now - (max(beat.time, self._turned[0], self._excused) if beat else self._moved),
            slowest=beat.slowest if beat else 0.0,
            motionless=now - self._moved,
            same_stacks=self._same_stacks(),
            cpu_share=self._cpu_share(),
            excused=excused,
            hang_after=self._hang_after,
        )
        verdict, rule = assess(still)
        if verdict != Watchfulness.FINE:
            self._ask_for_stacks(now)
        if verdict == Watchfulness.FINE:
            return verdict, None
        return verdict, self._stall(now, still, rule, sample)

    def _progressed(self, now: float, marks: _Marks) -> bool:
        assert self._marks is not None
        then, old = self._marks
        idle_allowance = IDLE_CPU * (now - then)
        return (
            marks.cpu - old.cpu > max(0.02, idle_allowance)
            or marks.io > old.io
            or marks.faults - old.faults > 64
            or marks.output > old.output
        )

    def _cpu_share(self) -> float:
        first, last = self._window[0], self._window[-1]
        return (last.cpu - first.cpu) / (last.time - first.time) if last.time > first.time else 0.0

    def _excuse(self, state: str) -> str | None:
        if state in "Tt":
            return "stopped"
        pid = self._beat.pid if self._beat else self._pid
        if procfs.traced(pid):
            return "held by a debugger"
        if procfs.reads_terminal(pid):
            return "waiting at a prompt"
        return None

    # --- stacks -----------------------------------------------------------------------------------

    def _written(self, pid: int) -> bytes:
        """All the stacks that a process has written so far; OSError where it has no file for them."""
        if self._folder is None:
            raise FileNotFoundError
        return self._folder.folder(STACKS).read(f"{pid}.txt", MOST)

    def _is_ready(self, pid: int, armed: Armed) -> bool:
        """Whether it would write its stacks, and into our file: it may have closed that, and opened one of its own."""
        if self._folder is None or not procfs.catches(pid, armed.number):
            return False  # an unhandled signal would end it: exec'ed away
        try:
            ours, its = self._folder.folder(STACKS).stat(f"{pid}.txt"), os.stat(f"/proc/{pid}/fd/{armed.fd}")
        except OSError:
            return False
        return (ours.st_dev, ours.st_ino) == (its.st_dev, its.st_ino)

    def _ask_for_stacks(self, now: float) -> None:
        pid = self._beat.pid if self._beat else self._pid
        armed = self._armed.get(pid)
        last = self._dumps[-1][0] if self._dumps else None
        due = last is None or now - last >= DUMP_APART
        if not due or self._asked is not None or armed is None or not self._is_ready(pid, armed):
            return
        try:
            size = len(self._written(pid))
            os.kill(pid, armed.number)
        except OSError:
            return
        self._asked = (now, size)

    def _collect(self, now: float) -> None:
        if self._asked is None:
            return
        pid = self._beat.pid if self._beat else self._pid
        asked, offset = self._asked
        try:
            text = self._written(pid)[offset:].decode(errors="replace")
        except OSError:
            text = ""
        if text.endswith("\n") and "File" in text:
            self._dumps.append((asked, text))
            self._asked = None
        elif now - asked > DUMP_APART:
            self._asked = None

    def stacks_by(self, now: float) -> str:
        """The latest stacks; asks for them and collects what is there by now."""
        self._collect(now)
        if not self._dumps:
            self._ask_for_stacks(now)
        return self._dumps[-1][1] if self._dumps else ""

    def _same_stacks(self) -> float:
        """Seconds over which the stacks did not change at all."""
        if len(self._dumps) < 2:
            return 0.0
        latest = self._dumps[-1]
        same = [time for time, text in self._dumps if text == latest[1]]
        return latest[0] - same[0]

    def _stall(self, now: float, still: Stillness, rule: str, sample: Sample) -> Stall:
        first = self._window[0]
        seconds = max(0.001, sample.time - first.time)
        return Stall(
            time=now,
            silent_seconds=round(still.silent, 1),
            rule=rule,
            stacks=self._dumps[-1][1] if self._dumps else "",
            memory_pressure=sample.memory_pressure,
            io_pressure=sample.io_pressure,
            swap_in_rate=(sample.swapped_in - first.swapped_in) / seconds,
            waiting_in=procfs.waiting_in(self._beat.pid if self._beat else self._pid),
        )
