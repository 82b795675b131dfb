"""What a training will need, from what was seen of it before its first step: pure functions from facts to numbers.

Two ways that check each other. *Static*: what the traced graph keeps alive, on top of what is in use. *Measured*:
two small batches that were really run, and the line through them. The measured one is the forecast where there is
one; the static one chooses what is safe to measure, and stands alone where nothing can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from .micro_batch import Line, Trial

# Shares of a forecast on either side. Not calibrated: `bench forecast` has not been run on its models, so no coverage
# is claimed for them.
MEASURED_LOW, MEASURED_HIGH = 0.08, 0.08
STATIC_LOW, STATIC_HIGH = 0.25, 0.35
DEVICE_LOW, DEVICE_HIGH = 0.25, 0.75  # of one that is not here: its libraries choose other workspaces
DOUBT = 2.0  # the static forecast is trusted to this factor before anything was measured
CHANCE = 24 << 20  # bytes by which the peak of the same batch differs from one time to the next
COUNTED = 0.15  # share by which the slope that the graph tells is off
DISAGREE = 3.0  # times the doubt of both slopes
SAFE = 0.6  # of the limit may be reached by a trial, by what is known before it
SMALL, LARGER = 8, 2  # parts of the batch that are tried


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
    validation: int = 0  # bytes that its graph keeps alive at the peak; 0 where there is none
    seen: int = 0  # bytes at the peak of a hand-written loop's first step, with what its second adds
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
            validation=int((event.get("validation") or {}).get("bytes") or 0),
            seen=int(event.get("seen") or 0),
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

    def _held(self, *stages: str) -> int:
        return sum(int(stage["bytes"]) for stage in self.pipeline if stage["stage"] in stages)

    @property
    def later(self) -> int:
        """Bytes that the pipeline does not hold yet, but will: a cache fills as its elements are drawn.

        A shuffle is full before its first element comes, and what went through a cache on its way lies there only
        once. At the turn of an epoch its buffer is given up before the next one is filled.
        """
        return max(0, self._held("cache") - self._held("shuffle"))

    @property
    def buffered(self) -> int:
        """Bytes in the pipeline, when all of it is full."""
        return max(self._held("cache"), self._held("shuffle")) + self._held("prefetch", "working")


@dataclass(frozen=True)
class Point:
    """A forecast in bytes: the value, and an interval whose coverage is not known yet."""

    peak: int
    low: int
    high: int
    how: str  # measured, static


def next_trial(facts: Facts, limit: int, trials: Sequence[Trial]) -> int:
    """The rows to be tried next; 0: enough is known."""
    if facts.cut or facts.rows < 2 or len(trials) >= 2:
        return 0
    share = SMALL if not trials else LARGER
    rows = max(1, facts.rows // share)
    if trials and rows <= trials[0].rows:
        rows = trials[0].rows + 1
    while rows > 1 and _expected(facts, trials, rows) > SAFE * limit:
        rows //= 2
    if trials and rows <= trials[0].rows:
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


def line(facts: Facts, trials: Sequence[Trial]) -> Line | None:
    """Anonymous bytes by rows, through the last trial; None where nothing was measured.

    Its slope is both that of the trials and that of the graph, each as far as it can be trusted: two peaks differ by
    chance too, which drowns the slope of two small batches, and nothing of which is in the graph.
    """
    if not trials:
        return None
    first, last = trials[0], trials[-1]
    counted = (facts.alive(2 * last.rows) - facts.alive(last.rows)) / last.rows
    apart = last.rows - first.rows
    if apart <= 0:
        return Line(last.peak - counted * last.rows, max(1.0, counted))
    measured = (last.peak - first.peak) / apart
    if counted <= 0:
        return Line(last.peak - measured * last.rows, max(1.0, measured))
    doubts = (CHANCE * 2**0.5 / apart) ** 2, (COUNTED * counted) ** 2
    slope = (measured * doubts[1] + counted * doubts[0]) / sum(doubts)
    if abs(measured - counted) > DISAGREE * sum(doubts) ** 0.5:  # the graph does not tell it all: what was seen counts
        slope = measured
    return Line(last.peak - slope * last.rows, max(1.0, slope))


def static(facts: Facts, rows: int) -> Point:
    """From the graph alone; of a loop that has none, from its first step."""
    most = max(facts.alive(rows), facts.validation)
    peak = facts.files + max(facts.in_use + most, facts.seen) + facts.later
    return Point(peak, *static_interval(peak), "static")


def static_interval(peak: int) -> tuple[int, int]:
    return int(peak * (1 - STATIC_LOW)), int(peak * (1 + STATIC_HIGH))


def forecast(facts: Facts, trials: Sequence[Trial], rows: int) -> Point:
    known = line(facts, trials)
    if known is None:
        return static(facts, rows)
    if facts.in_use + facts.validation > known.peak(rows):  # which was counted, and not measured
        peak = facts.files + facts.in_use + facts.validation + facts.later
        return Point(peak, *static_interval(peak), "static")
    peak = facts.files + known.peak(rows) + facts.later
    return Point(peak, int(peak * (1 - MEASURED_LOW)), int(peak * (1 + MEASURED_HIGH)), "measured")


def on_device(facts: Facts, rows: int) -> Point:
    """On an accelerator that is not here: what lies in its memory, the runtime and the input stay on the host."""
    peak = facts.model["weights"] + facts.model["optimizer"] + facts.alive(rows)
    return Point(peak, int(peak * (1 - DEVICE_LOW)), int(peak * (1 + DEVICE_HIGH)), "static")


def largest_on_device(facts: Facts, limit: int) -> int:
    """The most rows whose interval lies below the limit; 0 where not even one does. By the graph alone, not tried."""
    fixed, most = on_device(facts, 1), 1
    if not facts.static or fixed.high > limit:
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


def in_validation(facts: Facts) -> bool:
    """Whether the peak is there, and not in a training step."""
    return facts.validation > facts.alive(facts.rows)


def breakdown(facts: Facts, point: Point) -> dict[str, int]:
    """Where the bytes are at the peak."""
    return _validating(facts, point.peak) if in_validation(facts) else _training(facts, point.peak)


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
    runtime = max(0, facts.in_use + facts.files - weights - optimizer - facts.preloaded)
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


def phases(facts: Facts, point: Point) -> list[dict[str, Any]]:
    """What is in memory when: before the first step, in one, in one while keepfit writes a state, in the validation.

    Taking a state copies nothing by itself; but the step that follows writes to variables whose old values are still
    being written out, so that weights and optimizer state are there twice.
    """
    step = _training(facts, 0 if in_validation(facts) else point.peak)
    start = {**step, **dict.fromkeys(("gradients", "activations", "workspace"), 0)}
    model = facts.model
    saving = {**step, "weights": 2 * model["weights"], "optimizer": 2 * model["optimizer"]}
    told = [
        {"name": "before the first step", "parts": start},
        {"name": "a training step", "parts": step},
        {"name": "a step while a state is saved", "parts": saving},
    ]
    if facts.validation:
        parts = _validating(facts, point.peak if in_validation(facts) else 0)
        told.append({"name": "a step of the validation", "parts": parts})
    return told
