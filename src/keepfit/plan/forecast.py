"""What a training will need, from what was seen of it before its first step: pure functions from facts to numbers.

Two ways that check each other. *Static*: what the traced graph keeps alive, on top of what is in use. *Measured*:
two small batches that were really run, and the line through them. The measured one is the forecast where there is
one; the static one chooses what is safe to measure, and stands alone where nothing can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

from ..quick import dataclass
from . import pool
from .micro_batch import Line, Trial

# Shares of a forecast on either side, chosen by the tuning models of `bench forecast`, and the share of trainings that
# they hold: 76 of 90 of the reported ones (measured), and all of them (static), of which no more is claimed than this.
COVERAGE = {"measured": 0.84, "static": 0.9}
MEASURED_LOW, MEASURED_HIGH = 0.08, 0.11
STATIC_LOW, STATIC_HIGH = 0.25, 0.35
DEVICE_LOW, DEVICE_HIGH = 0.25, 0.75  # of one that is not here: its libraries choose other workspaces
DOUBT = 2.0  # the static forecast is trusted to this factor before anything was measured
CHANCE = 36 << 20  # bytes by which the peak of the same batch differs from one time to the next
# What a step takes, by what its graph keeps alive (of the tuning models): workspaces, and what malloc keeps of small
# blocks. A further row takes less than the first ones: its blocks are larger, and those of 32 MiB are given back.
FIRST, SPREAD, FURTHER = 48 << 20, 1.2, 1.1
COUNTED = 0.12  # share by which the slope that the graph tells is off
DISAGREE = 3.0  # times the doubt of both slopes
SAFE = 0.6  # of the limit may be reached by a trial, by what is known before it
# Parts of the batch that are tried. What the first one leaves in malloc's hands is still there in the second, whose
# larger blocks cannot use it: so it is very small.
SMALL, LARGER = 32, 2
# Buffers of earlier epochs, in shares of one, that malloc still holds while the next is filled: other threads fill it,
# from other arenas. Measured on shuffles of images, strings and numbers (2 cores): 1.0 after one epoch, 1.2 to 3 later.
KEPT_ONCE, KEPT_LATER = 1.0, 1.6
# What glibc's malloc is to be asked for, so that it keeps little of what is freed.
LEAN_MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
FEW = 8  # steps: what malloc keeps of more of them has not been seen in a trial


def _element(stage: Mapping[str, Any]) -> float:
    """Bytes of one element of a stage."""
    return int(stage["bytes"]) / max(1, int(stage["elements"]))


@dataclass(frozen=True)
class Facts:
    """What the agent has seen at the first training call."""

    rows: int
    in_use: int  # bytes, anonymous, before the first step
    files: int  # bytes of program code and other files
    model: Mapping[str, int]
    static: tuple[tuple[int, int], ...]  # (rows, bytes that the graph keeps alive at its peak)
    pipeline: tuple[Mapping[str, Any], ...]
    preloaded: int
    layers: tuple[Mapping[str, Any], ...]
    cut: str | None  # why the batch cannot be made smaller
    epochs: int = 1  # each of which fills the buffers of the pipeline anew
    prepared: int = 0  # bytes, anonymous, at the peak of what the script did before its training call
    validation: int = 0  # bytes that its graph keeps alive at the peak; 0 where there is none
    seen: int = 0  # bytes at the peak of a hand-written loop's first step, with what its second adds
    samples: int | None = None  # rows of all the data, where that is known
    told: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Facts:
        return cls(
            rows=int(event["rows"]),
            in_use=int(event["in_use"]),
            files=int(event["files"]),
            model={key: int(value) for key, value in event["model"].items()},
            static=tuple(sorted({int(rows): int(size) for rows, size in event.get("static") or ()}.items())),
            pipeline=tuple(event.get("pipeline") or ()),
            preloaded=int(event.get("preloaded") or 0),
            layers=tuple(event.get("layers") or ()),
            cut=event.get("cut"),
            epochs=int(event.get("epochs") or 1),
            prepared=int(event.get("prepared") or 0),
            validation=int((event.get("validation") or {}).get("bytes") or 0),
            seen=int(event.get("seen") or 0),
            samples=int(event.get("samples") or 0) or None,
            told=event,
        )

    def alive(self, rows: int) -> int:
        """Bytes that the graph keeps alive with so many rows: the line between the sizes that were counted."""
        if not self.static:
            return 0
        known = list(self.static)
        if len(known) == 1:
            return known[0][1]
        pair = next((pair for pair in pairwise(known) if rows <= pair[1][0]), (known[-2], known[-1]))
        (low, less), (high, more) = pair
        return max(0, int(less + (rows - low) * (more - less) / (high - low)))

    def needs(self, rows: int) -> int:
        """Bytes that a step of so many rows takes, by its graph."""
        return int(FIRST + SPREAD * self.alive(rows)) if self.static else 0

    def needs_of_lean_malloc(self, rows: int) -> int:
        """The same where malloc keeps little of what is freed."""
        return int(FIRST + FURTHER * self.alive(rows))

    def _held(self, *stages: str) -> int:
        return sum(int(stage["bytes"]) for stage in self.pipeline if stage["stage"] in stages)

    @property
    def later(self) -> int:
        """Bytes that the pipeline does not hold yet, but will: a cache fills as its elements are drawn, and elements
        are in work while a step runs.

        A shuffle is full before its first element comes, and what went through a cache on its way lies there only
        once.
        """
        return max(0, self._held("cache") - self._held("shuffle")) + self.retained + self._held("working")

    @property
    def row(self) -> float:
        """Bytes of a row of the arrays that are trained on; 0 where it is not known, or comes by other ways."""
        return self.preloaded / self.samples if self.samples and not self.pipeline else 0.0

    @property
    def retained(self) -> int:
        """Bytes of shuffle buffers that earlier epochs have freed, and malloc has not given back."""
        if self.epochs < 2 or self._held("cache") or self.malloc.get("MALLOC_ARENA_MAX", "1") == "1":
            return 0
        shuffles = (stage for stage in self.pipeline if stage["stage"] == "shuffle")
        freed = sum(int(stage["bytes"]) for stage in shuffles if not self.pooled or _element(stage) < pool.LEAST)
        return int(freed * (KEPT_ONCE if self.epochs == 2 else KEPT_LATER))

    @property
    def grows(self) -> bool:
        """Whether more may be kept with every step than the few of a trial tell: much by malloc, a little by a lean
        one or a pool."""
        return bool(self.malloc) and not 0 < (self.steps or 0) <= FEW

    @property
    def unchosen(self) -> tuple[str, ...]:
        """Settings with which malloc keeps less, and that nobody has chosen; none where it is not glibc's."""
        return tuple(setting for setting, value in self.malloc.items() if value is None)

    @property
    def pooled(self) -> bool:
        """Whether tensors lie in a pool of TensorFlow's own, which malloc's settings do not reach."""
        return bool(self.told.get("pool"))

    @property
    def keeps_little(self) -> bool:
        """Whether little of what a step frees stays in malloc's hands, where the next may not find it."""
        return self.pooled or self.malloc == LEAN_MALLOC

    @property
    def malloc(self) -> Mapping[str, str | None]:
        """What was chosen of its settings."""
        return self.told.get("malloc") or {}

    @property
    def steps(self) -> int | None:
        """Of the whole training, where that is known."""
        if told := self.told.get("steps"):
            return int(told)
        if "epochs" not in self.told or not self.samples or not self.rows:
            return None
        return self.epochs * -(-self.samples // self.rows)

    @property
    def filled(self) -> int:
        """Bytes in the pipeline before the first step."""
        return self._held("shuffle")

    @property
    def buffered(self) -> int:
        """Bytes in the pipeline, when all of it is full."""
        return max(self._held("cache"), self._held("shuffle")) + self._held("prefetch", "working")


@dataclass(frozen=True)
class Point:
    """A forecast in bytes: the value, and an interval."""

    peak: int
    low: int
    high: int
    how: str  # measured, static
    where: str = "train"  # preparation, train, validation


def next_trial(facts: Facts, limit: int, trials: Sequence[Trial]) -> int:
    """The rows to be tried next; 0: enough is known."""
    # Without a graph nothing is known of the first one: it is a single row.
    shares = (SMALL, LARGER) if facts.static else (facts.rows, SMALL, LARGER)
    if facts.cut or not facts.rows or len(trials) >= len(shares):
        return 0
    known = trials[-1].rows if trials else 0
    rows = max(known + 1, facts.rows // shares[len(trials)])
    while rows > 1 and _expected(facts, trials, rows) > SAFE * limit:
        rows //= 2
    if not known < rows <= facts.rows:
        return 0
    return rows if _expected(facts, trials, rows) <= limit else 0


def _expected(facts: Facts, trials: Sequence[Trial], rows: int) -> float:
    """The most that a trial may be expected to reach, by what is known before it."""
    if not trials:
        return facts.in_use + DOUBT * facts.alive(rows)
    known = trials[-1]
    grown = max(1.0, (known.peak - facts.in_use) / known.rows)  # an upper bound: what is taken once is in it
    static = DOUBT * (facts.alive(rows) - facts.alive(known.rows))
    return known.peak + min(grown * (rows - known.rows), static or float("inf"))


def line(facts: Facts, trials: Sequence[Trial], rows: int = 0) -> Line | None:
    """Anonymous bytes by rows, between the trials on either side of `rows`, or through the largest; None without any.

    Its slope is both that of the trials and that of the graph, each as far as it can be trusted: two peaks differ by
    chance too, which drowns the slope of two small batches, and nothing of which is in the graph.
    """
    if not trials:
        return None
    ordered = sorted(trials, key=lambda trial: trial.rows)
    for less, more in pairwise(ordered):
        if less.rows < rows <= more.rows:
            return _through(more, (more.peak - less.peak) / (more.rows - less.rows))
    first, last = ordered[0], ordered[-1]
    counted = FURTHER * (facts.alive(2 * last.rows) - facts.alive(last.rows)) / last.rows
    apart = last.rows - first.rows
    if apart <= 0:  # without a graph, as if all of it had been for the rows
        return _through(last, counted if counted > 0 else (last.peak - facts.in_use) / last.rows)
    measured = (last.peak - first.peak) / apart
    if counted <= 0:
        return _through(last, measured)
    doubts = (CHANCE * 2**0.5 / apart) ** 2, (COUNTED * counted) ** 2
    slope = (measured * doubts[1] + counted * doubts[0]) / sum(doubts)
    if abs(measured - counted) > DISAGREE * sum(doubts) ** 0.5:  # the graph does not tell it all: what was seen counts
        slope = measured
    return _through(last, slope)


def _through(trial: Trial, slope: float) -> Line:
    slope = max(1.0, slope)
    return Line(trial.peak - slope * trial.rows, slope)


def untried_line(facts: Facts) -> Line | None:
    """Of a loop of the script's own, which cannot be tried: by its graph; else as if all it took was for its rows."""
    rows, kept = facts.rows, facts.model["trainable"] + facts.model["optimizer"]
    if rows < 2:
        return None
    if facts.static:
        half = rows // 2
        slope = FURTHER * (facts.alive(rows) - facts.alive(half)) / (rows - half)
        return _through(Trial(rows, facts.in_use + facts.needs(rows), 0.0), slope)
    return _through(Trial(rows, facts.seen, 0.0), (facts.seen - facts.in_use - kept) / rows) if facts.seen else None


def static(facts: Facts, rows: int) -> Point:
    """From the graph alone, whatever was tried."""
    return forecast(facts, (), rows)


def static_interval(peak: int) -> tuple[int, int]:
    return int(peak * (1 - STATIC_LOW)), int(peak * (1 + STATIC_HIGH))


def forecast(facts: Facts, trials: Sequence[Trial], rows: int) -> Point:
    """Of the whole run: its training, or what the script does before, if that takes more."""
    trained, prepared = training(facts, trials, rows), facts.files + facts.prepared
    if trained.peak >= prepared:
        return trained
    seen = _measured(prepared, "preparation")
    return replace(seen, high=max(seen.high, trained.high))


def training(facts: Facts, trials: Sequence[Trial], rows: int) -> Point:
    """As it was tried; else as its graph has it, or, of a loop without one, its first step."""
    known = line(facts, trials, rows)
    step = known.peak(rows) if known else max(facts.in_use + facts.needs(rows), facts.seen)
    validation = facts.in_use + facts.validation
    peak = facts.files + max(step, validation) + facts.later
    if validation > step:  # which is counted, and never measured
        return Point(peak, *static_interval(peak), "static", "validation")
    return _measured(peak, "train") if known else Point(peak, *static_interval(peak), "static")


def _measured(peak: int, where: str) -> Point:
    return Point(peak, int(peak * (1 - MEASURED_LOW)), int(peak * (1 + MEASURED_HIGH)), "measured", where)


def beyond(point: Point, room: int) -> Point:
    """Where a trial has come to the limit: at least so much, whatever was forecast."""
    high = max(point.high, int(room * (1 + STATIC_HIGH)))
    return Point(max(point.peak, room), max(point.low, room), high, "static", "train")


def is_known(facts: Facts, trials: Sequence[Trial]) -> bool:
    """Whether anything at all is known of a step."""
    return bool(facts.static or facts.seen or trials)


def on_device(facts: Facts, rows: int) -> Point:
    """On an accelerator that is not here: what lies in its memory, the runtime and the input stay on the host."""
    peak = facts.model["weights"] + facts.model["optimizer"] + facts.alive(rows)
    return Point(peak, int(peak * (1 - DEVICE_LOW)), int(peak * (1 + DEVICE_HIGH)), "static")


def largest_on_device(facts: Facts, limit: int) -> int:
    """The most rows whose interval lies below the limit; 0 where not even one does. By the graph alone, not tried."""
    fixed, most = on_device(facts, 1), 1
    if facts.alive(2) <= facts.alive(1) or fixed.high > limit:  # nothing is known of a row, or one is too much
        return 0
    while on_device(facts, 2 * most).high <= limit and most < 1 << 30:
        most *= 2
    step = most
    while step:
        if on_device(facts, most + step).high <= limit:
            most += step
        step //= 2
    return most


def breakdown_on_device(facts: Facts) -> dict[str, int]:
    gradients = facts.model["trainable"]
    counted = {"weights": facts.model["weights"], "gradients": gradients, "optimizer": facts.model["optimizer"],
               "activations": max(0, facts.alive(facts.rows) - gradients)}  # fmt: skip
    return {**dict.fromkeys(("runtime", "workspace", "pipeline", "preloaded"), 0), **counted}


def breakdown(facts: Facts, point: Point) -> dict[str, int]:
    """Where the bytes are at the peak."""
    return _BREAKDOWNS[point.where](facts, point.peak)


def _preparing(facts: Facts, peak: int) -> dict[str, int]:
    """The model may not be there yet, and what comes and goes are copies of the data, as a rule."""
    parts = dict.fromkeys(_parts(facts, 0, 0, 0), 0)
    runtime = max(0, facts.in_use + facts.files - facts.filled - facts.preloaded)
    preloaded = min(facts.preloaded, peak - runtime)
    return {**parts, "runtime": runtime, "preloaded": preloaded, "workspace": max(0, peak - runtime - preloaded)}


def _training(facts: Facts, peak: int) -> dict[str, int]:
    gradients = facts.model["trainable"]
    return _parts(facts, peak, gradients, max(0, facts.alive(facts.rows) - gradients))


def _validating(facts: Facts, peak: int) -> dict[str, int]:
    return _parts(facts, peak, 0, facts.validation)


def _parts(facts: Facts, peak: int, gradients: int, activations: int) -> dict[str, int]:
    """What no count explains is the runtime's before the first step, and workspace in it."""
    weights, optimizer = facts.model["weights"], facts.model["optimizer"]
    pipeline = facts.buffered
    counted = weights + optimizer + gradients + activations + pipeline + facts.preloaded
    runtime = max(0, facts.in_use + facts.files - weights - optimizer - facts.preloaded - facts.filled)
    return {
        "runtime": runtime,
        "weights": weights,
        "gradients": gradients,
        "optimizer": optimizer,
        "activations": activations,
        "workspace": max(0, peak - runtime - counted),
        "pipeline": pipeline,
        "preloaded": facts.preloaded,
    }


_BREAKDOWNS = {"preparation": _preparing, "train": _training, "validation": _validating}


def phases(facts: Facts, point: Point) -> list[dict[str, Any]]:
    """What is in memory when: before the first step, in one, in one while keepfit writes a state, in the validation.

    Taking a state copies nothing by itself; but the step that follows writes to variables whose old values are still
    being written out, so that weights and optimizer state are there twice.
    """
    step = _training(facts, point.peak if point.where == "train" else 0)
    start = {**step, **dict.fromkeys(("gradients", "activations", "workspace"), 0)}
    model = facts.model
    saving = {**step, "weights": 2 * model["weights"], "optimizer": 2 * model["optimizer"]}
    told = [
        {"name": "before the first step", "parts": start},
        {"name": "a training step", "parts": step},
        {"name": "a step while a state is saved", "parts": saving},
    ]
    if point.where == "preparation":
        told.insert(0, {"name": "the script's preparation", "parts": _preparing(facts, point.peak)})
    if facts.validation:
        parts = _validating(facts, point.peak if point.where == "validation" else 0)
        told.append({"name": "a step of the validation", "parts": parts})
    return told
