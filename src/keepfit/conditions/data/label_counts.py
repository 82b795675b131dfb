"""Labels with gaps, or far more of one than of another.

## What happened
Between the least and the largest label some never come, or a class has less than a hundredth of the largest one's
samples.

## How keepfit knows
They were counted.

## What to do
Class weights, or more samples of the rare ones; for gaps, look at whether the numbering is right.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from .files import of_file

RARE = 0.01  # of the most frequent
EACH = 5.0  # rows a value, on average: with fewer it is no label but a number


def preflight(report: Report) -> str | None:
    if not of_file(report, "labels"):
        return None
    counts = {str(name): int(count) for name, count in dict(report["counts"]).items()}
    most, each = max(counts.values()), sum(counts.values()) / len(counts)
    if each < EACH:
        return None
    rare = [f"{name} ({count})" for name, count in counts.items() if count < RARE * most]
    numbers = sorted(int(name) for name in counts if name.isdigit())
    gaps = sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if len(numbers) == len(counts) else []
    words = []
    if gaps and len(gaps) < len(numbers):
        words.append(f"labels that never come: {', '.join(map(str, gaps[:8]))}{', …' if len(gaps) > 8 else ''}")
    if rare and len(counts) <= 200:
        words.append(f"rare: {', '.join(rare[:8])}; the most frequent comes {most} times")
    return f"{report['name']}: {'; '.join(words)}" if words else None


CONDITION = Condition(
    code="KF326",
    name="labels-uneven",
    title="labels with gaps, or far from even",
    severity="note",
    preflight=preflight,
    remedies=(Remedy("class weights, or more samples", "class_weight= in fit"),),
)
