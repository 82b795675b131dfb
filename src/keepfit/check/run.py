"""Check paths: read each, compare them with each other and with what is normal, and judge."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ..facts import Finding
from ..quick import dataclass
from . import judging, schema, target
from .sources import Looking, read
from .summary import Seen, Unreadable


@dataclass(frozen=True)
class Checked:
    seen: list[Seen]  # what could be read
    findings: list[Finding]


def check(
    paths: Sequence[str],
    duplicates: bool = False,
    known: dict[str, Any] | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> Checked:
    """`known`: a schema that everything must agree with."""
    looking = Looking(duplicates, advance)
    seen: list[Seen] = []
    unreadable: list[tuple[str, str]] = []
    try:
        for path in dict.fromkeys(paths):
            try:
                named = target.is_target(path) and not os.path.exists(path)
                seen.append(target.read(path) if named else read(path, looking))
            except Unreadable as error:
                unreadable.append((path, str(error)))
        wrong = [(one.path, why) for one in seen for why in schema.violations(one, known)] if known is not None else []
        return Checked(seen, judging.judge(seen, list(looking.rows.values()), unreadable, wrong))
    finally:
        for rows in looking.rows.values():
            rows.close()
