"""What `check` found, as text."""

from __future__ import annotations

from ..check.run import Checked
from ..check.summary import Seen
from .style import Style, one_line

_COLOURS = {"error": "red", "warning": "yellow", "note": "dim"}


def render(found: Checked, colours: bool) -> str:
    style = Style(colours)
    lines = [style(one_line(seen.path), "bold") + f"  {_about(seen)}" for seen in found.seen]
    for finding in found.findings:
        mark = style(finding.severity.rjust(9), _COLOURS[finding.severity])
        said = one_line(f"{finding.file}: {finding.message}")
        lines.append(f"{mark}  {said}  {style(finding.code, 'dim')}")
    errors = sum(finding.severity == "error" for finding in found.findings)
    others = len(found.findings) - errors
    lines.append(f"{_count(errors, 'error')}, {others} other" if found.findings else "nothing to complain about")
    return "\n".join(lines)


def _about(seen: Seen) -> str:
    kinds = {
        "npy": "rows", "npz": "rows", "csv": "rows", "parquet": "rows", "tfrecord": "records", "images": "pictures",
        "target": "rows",
    }  # fmt: skip
    words = [f"{seen.rows} {kinds[seen.kind]}"]
    if len(seen.columns) == 1 and seen.columns[0].shape:
        words.append(f"of {seen.columns[0].shape} {seen.columns[0].dtype}")
    elif len(seen.columns) > 1:
        words.append(f"of {len(seen.columns)} columns")
    if seen.labels:
        words.append(f"in {len(seen.labels)} classes")
    return ", ".join(words)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"
