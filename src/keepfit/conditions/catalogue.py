"""What a condition is, and where all of them are found.

Every module of the families below that has a ``CONDITION`` is
one entry. Its docstring is its documentation (`keepfit explain CODE`). Third parties add theirs through
the entry-point group ``keepfit.conditions``, each naming a module of the same shape.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from ..facts import Attempt, Evidence, Finding, Remedy
from ..quick import dataclass

Report = Mapping[str, Any]  # what the agent tells while the run goes on; `kind` says what it is about

GROUP = "keepfit.conditions"
FAMILIES = ("memory", "process", "environment", "gpu", "checkpoint", "numerics", "data")

# How specific a cause is: where several fit, the more specific one is the answer. What keepfit did itself
# comes first; a bare exit status explains nothing and comes last.
OWN_ACT, KERNEL, SPECIFIC, SIGNAL, EXCEPTION, BARE = range(6)


@dataclass(frozen=True)
class Diagnosis:
    """One detector's answer: that its condition is the cause, how sure, and why."""

    confidence: str
    summary: str
    evidence: tuple[Evidence, ...]
    where: Mapping[str, Any] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] | None = None  # None: the condition's own
    cause: str | None = None  # where one condition covers more than one contract name


@dataclass(frozen=True)
class Condition:
    """One failure mode: its names, its documentation, its remedies, its detectors.

    `autopsy` answers "did it die of this?". `because` answers "was this why it came to that?", given the
    cause. `watch` answers "is this met now?", given what the agent reports, and `preflight` the
    same of data that was looked at beforehand. All are pure functions from facts.
    """

    code: str
    name: str
    title: str
    cause: str | None = None  # the contract's proximate cause
    root: str | None = None  # the contract's root
    specificity: int = SPECIFIC
    severity: str = "error"
    remedies: tuple[Remedy, ...] = ()
    autopsy: Callable[[Attempt], Diagnosis | None] | None = None
    because: Callable[[Attempt, str], Evidence | None] | None = None
    watch: Callable[[Report], str | None] | None = None
    preflight: Callable[[Report], str | None] | None = None
    advice: Callable[[Attempt], tuple[Remedy, ...]] | None = None  # remedies that depend on the run
    doc: str = ""
    family: str = ""  # the folder it lies in; of third parties there is none

    @property
    def moments(self) -> tuple[str, ...]:
        after = self.autopsy is not None or self.because is not None
        known = {"preflight": self.preflight is not None, "watch": self.watch is not None, "autopsy": after}
        return tuple(moment for moment, there in known.items() if there)


def findings(report: Report, moment: str = "watch") -> list[Finding]:
    """Every condition that a report meets: of the agent's, while the run goes on, or of data that was looked at."""
    found = []
    for condition in all_conditions():
        detect = condition.watch if moment == "watch" else condition.preflight
        try:
            message = detect(report) if detect is not None else None
        except Exception:
            continue
        if message is not None:
            found.append(
                Finding(
                    condition.code,
                    condition.name,
                    condition.severity,
                    moment,
                    message,
                    file=report.get("path"),
                    line=None,
                    data=dict(report),
                    remedies=condition.remedies,
                )
            )
    return found


def _with_doc(module: ModuleType, family: str = "") -> Condition:
    from dataclasses import replace

    condition: Condition = module.CONDITION
    return replace(condition, doc=(module.__doc__ or "").strip(), family=family)


@cache
def built_in() -> tuple[Condition, ...]:
    import pkgutil

    found = []
    for family in FAMILIES:
        package = import_module(f".{family}", __package__)
        for entry in pkgutil.iter_modules(package.__path__):
            module = import_module(f".{family}.{entry.name}", __package__)
            if hasattr(module, "CONDITION"):
                found.append(_with_doc(module, family))
    return tuple(sorted(found, key=lambda condition: condition.code))


def _others_have_some() -> bool:
    """Whether any installed package names conditions: asking `importlib.metadata` takes longer than all the rest."""
    for folder in sys.path:
        try:
            packages = [entry.path for entry in os.scandir(folder) if entry.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for package in packages:
            try:
                with open(os.path.join(package, "entry_points.txt"), "rb") as file:
                    if GROUP.encode() in file.read():
                        return True
            except OSError:
                continue
    return False


@cache
def all_conditions() -> tuple[Condition, ...]:
    """Ours and those of third parties; one of theirs that fails to load is left out."""
    found = list(built_in())
    if not _others_have_some():
        return tuple(found)
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            found.append(_with_doc(entry.load()))
        except Exception:
            continue
    return tuple(sorted(found, key=lambda condition: condition.code))
