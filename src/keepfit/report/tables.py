"""Plain tables: columns as wide as they need, and on a narrow screen the last of them on lines of their own."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from .style import Style, harmless

_GAP = "  "
_INDENT = "    "


def render(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = 118, colours: bool = False) -> str:
    style = Style(colours)
    cells = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]
    lines = [style(line, "dim") for line in _lines(header, widths, width)]
    for row in cells:
        lines += _lines(row, widths, width)
    return "\n".join(lines)


def _lines(row: Sequence[str], widths: Sequence[int], width: int) -> list[str]:
    """As many columns on the first line as there is room for; the last one is wrapped, none is cut."""
    lines = [""]
    for place, (cell, size) in enumerate(zip(row, widths, strict=True)):
        last = place == len(row) - 1
        needed = min(size, width // 3) if last else size
        if lines[-1].strip() and len(lines[-1]) + needed > width:
            lines.append(_INDENT)
        if last:
            start = len(lines[-1])
            first, *more = textwrap.wrap(cell, max(20, width - start), drop_whitespace=False) or [""]
            lines[-1] += first
            lines += [" " * start + piece.lstrip() for piece in more]
        else:
            lines[-1] += cell.ljust(size) + _GAP
    return [line.rstrip() for line in lines]


def ago(seconds: float) -> str:
    """That long before now; a clock that was set back since shows as what it is."""
    return f"{age(seconds)} ago" if seconds >= 0 else f"{age(-seconds)} ahead"


def age(seconds: float) -> str:
    """`12 s`, `4 min`, `3 h`, `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
