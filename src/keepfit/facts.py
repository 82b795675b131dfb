"""The words everything above the ground floor speaks in: frozen facts, with JSON in and out.

Nothing here judges and nothing here touches the machine. ``machine`` and ``blackbox`` make these,
``conditions`` reason over them, ``report`` renders them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .quick import dataclass, field

PHASES = (
    "start",
    "import",
    "data",
    "build",
    "trace",
    "train",
    "validation",
    "predict",
    "checkpoint",
    "end",
)

# Strongest first. DESIGN's rule: `certain` is a statement about this very process by the kernel, the
# driver, the framework or the agent; `likely` a signature, or a limit and the samples that agree;
# `possible` only timing or one weak sign.
CONFIDENCE = ("certain", "likely", "possible", "unknown")


# --- what was measured ---------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryLimit:
    """How much memory a process can really have, and the name of the level that says so."""

    bytes: int
    source: str
    kind: str = "host"  # host | cgroup | budget | rlimit | scheduler
    path: str | None = None  # the cgroup level, where one binds


@dataclass(frozen=True)
class Sample:
    """One look at the whole process tree and the machine around it."""

    time: float  # CLOCK_MONOTONIC seconds
    processes: int = 0
    threads: int = 0
    state: str = "?"  # of the main process, as in /proc/PID/stat
    rss: int = 0
    anon: int = 0
    file: int = 0
    shmem: int = 0
    swap: int = 0
    use: int = 0  # what the kernel could not give back; shared pages counted once near the line
    cpu: float = 0.0  # seconds, the tree's total
    read_bytes: int = 0
    write_bytes: int = 0
    faults: int = 0
    major_faults: int = 0
    open_files: int = 0
    level_use: int = 0  # of the binding cgroup level, page cache left out
    host_available: int = 0
    swapped_in: int = 0  # bytes read back from swap since boot
    memory_pressure: float = 0.0  # PSI "full avg10", per cent
    io_pressure: float = 0.0
    cpu_pressure: float = 0.0  # PSI "some avg10"


@dataclass(frozen=True)
class Beat:
    """One word from the agent: where the training is."""

    time: float
    pid: int
    phase: str
    epoch: int = -1
    step: int = -1
    steps: int = 0  # of the whole run so far
    batch_size: int = 0
    loss: float = float("nan")
    slowest: float = 0.0  # seconds, the slowest step so far
    doing: str = "stepping"  # stepping | filling | callback | saving | between | looping

    def gone_on(self, time: float, step: int, doing: str) -> Beat:
        """The same training at a later step. Asked for all the time: `dataclasses.replace` is dearer."""
        steps = self.steps + (max(0, step - self.step) if self.step >= 0 else step)
        kept = (self.batch_size, self.loss, self.slowest)
        return Beat(time, self.pid, self.phase, self.epoch, step, steps, *kept, doing)


@dataclass(frozen=True)
class Exit:
    """How the command ended, as its parent saw it. Exactly one of the two is set, or neither."""

    status: int | None = None
    signal: int | None = None
    core: bool = False

    @property
    def code(self) -> int | None:
        """What a shell would call it."""
        return self.status if self.signal is None else 128 + self.signal


@dataclass(frozen=True)
class OomCounters:
    """One cgroup level's own count of its troubles."""

    path: str
    oom_kill: int | None = None
    failures: int | None = None  # times the limit was hit (v1 failcnt, v2 events.max)
    limit: int | None = None
    use: int | None = None
    peak: int | None = None


@dataclass(frozen=True)
class Disk:
    """Free space of one directory that matters."""

    role: str  # cwd | tmp | shm | runs
    path: str
    free: int
    total: int
    free_inodes: int | None = None


@dataclass(frozen=True)
class Frame:
    """One line of the user's own code."""

    file: str
    line: int
    function: str = ""
    code: str = ""


@dataclass(frozen=True)
class PythonError:
    """An exception that ended the interpreter (told by the agent, or read from the last output)."""

    type: str
    message: str
    bases: tuple[str, ...] = ()
    frame: Frame | None = None  # the innermost frame that is the user's own
    errno: int | None = None
    told_by: str = "agent"  # agent | child (the agent, about a child process) | log
    chain: tuple[str, ...] = ()  # types of the exceptions it was raised from


@dataclass(frozen=True)
class Notice:
    """A signal that reached keepfit itself, and who sent it."""

    time: float
    signal: int
    sender: int | None = None  # pid; None: the kernel, or unknown
    sender_name: str | None = None


@dataclass(frozen=True)
class Stall:
    """What the supervisor saw when the training stopped moving."""

    time: float
    silent_seconds: float
    rule: str  # progress | stacks | asked
    stacks: str = ""
    memory_pressure: float = 0.0
    io_pressure: float = 0.0
    swap_in_rate: float = 0.0  # bytes a second
    waiting_in: tuple[str, ...] = ()  # kernel functions of D-state threads


@dataclass(frozen=True)
class Danger:
    """The danger line was reached and keepfit ended the command."""

    time: float
    line_bytes: int
    use_bytes: int
    source: str
    how: str  # cgroup-v1 | cgroup-v2 | sampled | planned | import
    frozen: bool = True


@dataclass(frozen=True)
class Splitting:
    """How a step's batch was run, as it was decided between agent and supervisor. Bytes of the training process."""

    step: str  # train | test | predict
    batch: int  # rows of the user's batch
    rows: int  # rows computed at once; the batch itself where it runs whole
    how: str = "measured"  # comfortable | trying | measured | remembered | resumed | wished | exhausted | refused
    limit: int = 0
    in_use: int = 0  # before the first step
    base: float = 0.0  # predicted peak = base + rows x slope
    slope: float = 0.0
    needs: int = 0  # what the whole batch would need, by its graph and what was measured; 0: not known
    key: str = ""
    model: Mapping[str, Any] = field(default_factory=dict)  # bytes of weights, optimizer, …
    trial: bool = False  # a measured micro-batch, not a decision

    @property
    def parts(self) -> int:
        return -(-self.batch // max(1, self.rows))

    @property
    def forecast(self) -> int:
        """The peak that was expected of it, in bytes; 0 where nothing was."""
        return int(self.base + self.rows * self.slope) if self.slope else self.needs


@dataclass(frozen=True)
class ChildDeath:
    """A process of the tree, other than the main one, that is gone or was named by the kernel."""

    pid: int
    name: str
    time: float
    last_rss: int = 0


@dataclass(frozen=True)
class Loop:
    """The user's own training loop: the lines by which it was recognised."""

    file: str
    loop_line: int = 0
    loop_code: str = ""
    tape_line: int = 0
    tape_code: str = ""
    loss_line: int = 0
    loss_code: str = ""
    gradient_line: int = 0
    gradient_code: str = ""


@dataclass(frozen=True)
class Attempt:
    """All that is known about one attempt at running the command: what detectors look at."""

    n: int = 1
    pid: int = 0
    started: float = 0.0
    ended: float | None = None
    exit: Exit | None = None
    argv: tuple[str, ...] = ()
    cwd: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    limit: MemoryLimit | None = None
    budget: int | None = None
    fence: str | None = None  # path of the cgroup keepfit made for the command
    samples: tuple[Sample, ...] = ()
    beats: tuple[Beat, ...] = ()
    kernel_log: tuple[str, ...] | None = None  # None: not readable
    kernel_pids_are_ours: bool = True  # False inside a pid namespace
    counters_before: tuple[OomCounters, ...] = ()
    counters_after: tuple[OomCounters, ...] = ()
    shares_cgroup: bool = False  # processes of others live in the cgroup whose counters these are
    danger: Danger | None = None
    stall: Stall | None = None
    splittings: tuple[Splitting, ...] = ()
    changed: str | None = None  # what was changed since the attempt before
    reports: tuple[Mapping[str, Any], ...] = ()  # what the agent told of numbers and data
    loop: Loop | None = None  # the hand-written training loop, where there is one
    error: PythonError | None = None
    notices: tuple[Notice, ...] = ()
    child_deaths: tuple[ChildDeath, ...] = ()
    disks: tuple[Disk, ...] = ()
    network_errors: Mapping[str, int] = field(default_factory=dict)
    open_files_limit: int | None = None
    gpus: tuple[Mapping[str, Any], ...] = ()
    stdout: str = ""
    stderr: str = ""
    fatal_stacks: str = ""
    agent: str = "absent"  # absent | ready (an interpreter answered) | awake (a framework too) | off
    lacked: tuple[str, ...] = ()
    ended_well: bool = False  # the agent saw the interpreter reach its end without an error
    witnessed: bool = True  # the supervisor was there at the end and looked
    alive: bool = False  # the process still runs
    watched: bool = False  # attached to by `watch`, not started by us

    @property
    def last_beat(self) -> Beat | None:
        return self.beats[-1] if self.beats else None

    @property
    def splitting(self) -> Splitting | None:
        """What was decided last."""
        decided = [splitting for splitting in self.splittings if not splitting.trial]
        return decided[-1] if decided else None

    @property
    def last_sample(self) -> Sample | None:
        return self.samples[-1] if self.samples else None

    @property
    def peak(self) -> int:
        return max((s.use for s in self.samples), default=0)

    @property
    def output(self) -> str:
        """stderr first: where the two disagree, stderr is what the runtime said last."""
        return self.stderr + "\n" + self.stdout if self.stderr else self.stdout


@dataclass(frozen=True)
class Record:
    """One run, as its directory tells it."""

    run: str
    name: str = ""
    argv: tuple[str, ...] = ()
    cwd: str = ""
    started_at: float = 0.0  # wall clock
    ended_at: float | None = None
    attempts: tuple[Attempt, ...] = ()
    findings: tuple[Finding, ...] = ()
    lost: tuple[str, ...] = ()  # what of the record itself could not be read
    alive: bool = False

    @property
    def last(self) -> Attempt:
        return self.attempts[-1] if self.attempts else Attempt(argv=self.argv, cwd=self.cwd)


# --- what was concluded --------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    source: str  # exit | cgroup | kernel | samples | agent | log | disk | gpu | scheduler
    says: str
    strength: str = "certain"


@dataclass(frozen=True)
class Remedy:
    title: str
    how: str
    saves_bytes: int | None = None
    automatic: bool = False


@dataclass(frozen=True)
class Finding:
    """One condition met at one moment: the one shape of lint, check, plan and live warnings."""

    code: str
    condition: str
    severity: str  # error | warning | note
    moment: str  # lint | preflight | watch | autopsy
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Where:
    attempt: int = 1
    epoch: int | None = None
    step: int | None = None
    phase: str | None = None
    op: str | None = None
    layer: str | None = None
    file: str | None = None
    line: int | None = None
    pid: int | None = None
    process: str = "main"  # main | child


@dataclass(frozen=True)
class MemoryFacts:
    limit_bytes: int = 0
    limit_source: str = "unknown"
    peak_bytes: int = 0
    last_bytes: int = 0
    gpu: tuple[Mapping[str, Any], ...] = ()
    forecast_bytes: int = 0  # before the first step; 0: there was none


@dataclass(frozen=True)
class AttemptLine:
    n: int
    cause: str
    changed: str | None
    seconds: float
    last_step: int | None


@dataclass(frozen=True)
class Verdict:
    """Why it died (or that it lives, or that it finished), how sure, and on what evidence."""

    run: str
    outcome: str  # finished | died | running | unknown
    cause: str
    because: tuple[str, ...]
    code: str
    confidence: str
    summary: str
    where: Where = field(default_factory=Where)
    memory: MemoryFacts = field(default_factory=MemoryFacts)
    evidence: tuple[Evidence, ...] = ()
    lacked: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    attempts: tuple[AttemptLine, ...] = ()
    code_line: str | None = None  # the user's own line, for people


def as_json(fact: Any) -> dict[str, Any]:
    """A plain, JSON-ready dictionary of any fact."""
    return dict(dataclasses.asdict(fact))


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """The contract's `keepfit.verdict/1` document."""
    document = {"schema": "keepfit.verdict/1", **as_json(verdict)}
    del document["code_line"]
    return document
