"""The batch is run in micro-batches: it does not fit the memory there is in one piece.

## What happened
The whole batch would have needed more than the run may have. It is split inside the compiled step;
the gradients of the parts are added up, each with its share, and applied once. Steps, learning-rate
schedule, clipping, weight decay, moving averages, metrics and history are those of the whole batch:
shrink the micro-batch, never the batch.

## How keepfit knows
The graph that Keras traces gave a first estimate, two small micro-batches were measured (nothing of
them remains), and a line through them gives the need of any other. The largest that stays below 92 %
of the limit is taken, or a smaller one that was measurably faster. The choice is remembered.

## What to do
Nothing. If you want to know what it costs: more memory, or a smaller batch, would spare the split;
`keepfit explain KF112` has the options.
"""

from __future__ import annotations

from ...facts import Remedy
from ..catalogue import Condition, Report
from ..reading import size


def watch(report: Report) -> str | None:
    if report.get("kind") not in ("splitting", "corrected-split"):
        return None
    batch, rows, parts = report["batch"], report["rows"], report["parts"]
    what = {"test": "validation batch", "predict": "batch of predict"}.get(str(report["step"]), "batch")
    limit, needs = int(report["limit"]), int(report["needs"])
    if report["kind"] == "corrected-split":
        came_to = f"{report['tried']} peaked at {size(int(report['peak']))} of {size(limit)}"
        why = f"{report['tried']} rows at a time were slower" if report["faster"] else came_to
        return f"{what} {batch} goes on in {parts} micro-batches of {rows}: {why}"
    would = f"would need about {size(needs)} of" if needs > limit else "would come too close to"
    would += f" {size(limit)} ({report['source']})"
    results = "with the results of the whole batch" if report["exact"] else "applied as one batch"
    return f"{what} {batch} {would}; it runs as {parts} micro-batches of {rows}, {results}"


CONDITION = Condition(
    code="KF120",
    name="batch-split",
    title="the batch is run in micro-batches, with the results of the whole batch",
    severity="note",
    watch=watch,
    remedies=(Remedy("nothing to do", "the results are those of the whole batch", automatic=True),),
)
