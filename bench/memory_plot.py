"""The law in one picture: memory over time, the whole batch and the same batch in parts. Writes docs/memory.svg.

Not among the measurements of `make bench`: python -m bench.memory_plot
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests import stage

import keepfit.tour
from keepfit.blackbox import record
from keepfit.blackbox.rundir import RunDirectory

SCRIPT = str(Path(keepfit.tour.__file__).parent / "train.py")
BUDGET = 1 << 30
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760, 300, 60, 40, 20
GIB = 1 << 30


def main() -> None:
    whole = _recorded("--guard", "hang")
    split = _recorded("--memory", str(BUDGET))
    target = Path(__file__).parent.parent / "docs" / "memory.svg"
    target.write_text(_picture(whole, split))
    for name, points in (("whole", whole), ("in parts", split)):
        print(f"{name}: {points[-1][0]:.0f} s, peak {max(use for _, use in points) / GIB:.2f} GiB")


def _recorded(*options: str) -> list[tuple[float, int]]:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        command = [*stage.KEEPFIT, "run", *options, "--", sys.executable, SCRIPT]
        subprocess.run(command, env=stage.clean_environment(runs), check=True)
        directory = next(path for path in runs.iterdir() if path.is_dir())
        samples = record.load(RunDirectory(directory)).last.samples
    return [(sample.time - samples[0].time, sample.use) for sample in samples]


def _picture(whole: list[tuple[float, int]], split: list[tuple[float, int]]) -> str:
    seconds = max(whole[-1][0], split[-1][0])
    most = 1.1 * max(use for _, use in whole)

    def x(time: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * time / seconds

    def y(use: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * use / most

    def path(points: list[tuple[float, int]], colour: str) -> str:
        line = " ".join(f"{x(time):.1f},{y(use):.1f}" for time, use in points)
        return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'

    def text(at: tuple[float, float], words: str, colour: str = "#444", anchor: str = "start") -> str:
        return f'<text x="{at[0]:.0f}" y="{at[1]:.0f}" fill="{colour}" text-anchor="{anchor}">{words}</text>'

    grid = [
        f'<line x1="{LEFT}" y1="{y(g * GIB):.1f}" x2="{WIDTH - 20}" y2="{y(g * GIB):.1f}" stroke="#ddd"/>'
        + text((LEFT - 8, y(g * GIB) + 4), f"{g:.1f}", anchor="end")
        for g in (0, 0.5, 1.0, 1.5, 2.0)
        if g * GIB < most
    ]
    ticks = [text((x(t), HEIGHT - BOTTOM + 18), f"{t} s", anchor="middle") for t in range(0, int(seconds) + 1, 5)]
    dashed = 'stroke="#c00" stroke-dasharray="6 4"'
    limit = f'<line x1="{LEFT}" y1="{y(BUDGET):.1f}" x2="{WIDTH - 20}" y2="{y(BUDGET):.1f}" {dashed}/>'
    peak_at, peak = max(whole, key=lambda point: point[1])
    labels = [
        text((WIDTH - 24, y(BUDGET) - 6), "limit 1 GiB: plain Python is killed here", "#c00", "end"),
        text((x(peak_at) + 6, y(peak) - 4), "batch 1024, whole", "#777"),
        text((x(split[-1][0]) - 6, y(0.12 * GIB)), "batch 1024, in micro-batches: same results", "#06c", "end"),
        text((LEFT - 40, TOP - 6), "GiB"),
    ]
    parts = [*grid, *ticks, limit, path(whole, "#999"), path(split, "#06c"), *labels]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    main()
