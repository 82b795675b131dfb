"""What the agent reports, judged by the catalogue: into the record, and to the person where it is worth a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..blackbox.journal import JournalWriter
from ..conditions.catalogue import findings
from ..facts import Finding, as_json

# Kinds of reports of which each finding is said once a run; the rest of what concerns the memory is only written.
_ONCE = frozenset(
    {"splitting", "climbing", "coupled", "own-step", "fixed-batch", "data", "strategy", "legacy", "batch-statistics"}
    | {"health", "input", "aside"}
)
_ALWAYS = ("checkpoint-", "numbers-", "corrected-")  # each is about something else
_OURS = ("event", "t", "m")  # of the journal's line, not of the report


class Telling:
    def __init__(self, journal: JournalWriter, say: Callable[[str], None]) -> None:
        self._journal = journal
        self._say = say
        self._told: set[tuple[str, Any]] = set()

    def report(self, report: Mapping[str, Any]) -> None:
        kind = str(report.get("kind"))
        for finding in findings({name: value for name, value in report.items() if name not in _OURS}):
            key = (finding.code, report.get("training"))  # a script may train several models
            known = key in self._told
            if known and kind in ("health", "input"):
                continue
            self._told.add(key)
            self.note(finding, aloud=kind.startswith(_ALWAYS) or (kind in _ONCE and not known))

    def note(self, finding: Finding, aloud: bool = True) -> None:
        self._journal.write("finding", **as_json(finding))
        if aloud:
            self._say(f"keepfit: {finding.message}")
