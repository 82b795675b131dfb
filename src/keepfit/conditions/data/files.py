"""Reports of files that were looked at."""

from __future__ import annotations

from ..catalogue import Report


def of_file(report: Report, *what: str) -> bool:
    return report.get("kind") == "file" and report.get("what") in what


def some(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count != 1 else ''}"
