"""Plain tables: columns as wide as they need, the last one cut to the screen."""

from __future__ import annotations

from collections.abc import Sequence

from .style import Style, harmless


def render(header: Sequence[str], rows: Sequence[Sequence[str]], width: int = 118, colours: bool = False) -> str:
    style = Style(colours)
    cells = [[harmless(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(header), *cells]) for i in range(len(header))]
    lines = [style(_line(header, widths, width), "dim")]
    lines += [_line(row, widths, width) for row in cells]
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int], width: int) -> str:
    text = "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
    return text if len(text) <= width else text[: width - 1] + "…"


def ago(seconds: float) -> str:
    """That long before now; a clock that was set back since shows as what it is."""
    return f"{age(seconds)} ago" if seconds >= 0 else f"{age(-seconds)} ahead"


def age(seconds: float) -> str:
    """`12 s`, `4 min`, `3 h`, `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
