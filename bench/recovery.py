"""From a death to training again, in parts; and how much of the wall time is useful when it dies every minute."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from pathlib import Path

from tests import stage
from tests.resume import killing

from . import tables

DEATHS = int(os.environ.get("BENCH_DEATHS", "5"))
EVERY = float(os.environ.get("BENCH_EVERY", "60"))  # seconds between two deaths


def main() -> None:
    """A training of fixed length, undisturbed and with a SIGKILL every so often."""
    step, batches = 0.1, 13
    epochs = int(EVERY * (DEATHS + 0.5) / (batches * step))
    kind = {"model": "cnn", "source": "arrays", "epochs": epochs, "pause": step}
    with tempfile.TemporaryDirectory() as folder:
        calm, _ = _timed(Path(folder, "calm"), kind, 0)
        wild, outcome = _timed(Path(folder, "wild"), kind, DEATHS)
        same = killing.result(Path(folder, "calm")) == killing.result(Path(folder, "wild"))
        parts = _parts(outcome)
    died = len(parts)
    useful = calm / wild
    restart = sum(sum(part.values()) for part in parts) / max(1, died)
    wanted = 0.9 if restart <= 4 else 1 - (restart + 2) / EVERY
    wild_row = [f"SIGKILL every {EVERY:.0f} s", died, f"{wild:.1f} s", f"{useful:.1%}", f"{wanted:.1%}"]
    rows = [["undisturbed", 0, f"{calm:.1f} s", "", "", ""], [*wild_row, "yes" if same else "NO"]]
    tables.show("goodput", ("RUN", "DEATHS", "WALL TIME", "USEFUL", "WANTED", "SAME BITS"), rows)
    names = list(parts[0]) if parts else []
    rows = [
        [index + 1, *(f"{part[name]:.2f} s" for name in names), f"{sum(part.values()):.2f} s"]
        for index, part in enumerate(parts)
    ]
    tables.show("from death to training again", ("DEATH", *(name.upper() for name in names), "TOTAL"), rows,
                "wanted: framework import + the script's own preparation + trace + 1 s")  # fmt: skip


def _timed(folder: Path, kind: dict, deaths: int) -> tuple[float, stage.Outcome]:
    command = stage.victim("resumes.py", killing.plan(folder, deaths=[], **kind))
    began = time.monotonic()
    process = stage.start(folder / "runs", command, ["--restarts", "1000"])
    for _ in range(deaths):
        time.sleep(EVERY)
        if process.poll() is None:
            os.kill(_newest_pid(folder / "runs"), signal.SIGKILL)
    outcome = stage.finish(process, folder / "runs", seconds=3600)
    assert outcome.status == 0, outcome.stderr
    return time.monotonic() - began, outcome


def _newest_pid(runs: Path) -> int:
    directory = next(path for path in runs.iterdir() if path.is_dir())
    events = [json.loads(line) for line in (directory / "journal.jsonl").read_text().splitlines()]
    return [event["pid"] for event in events if event["event"] == "attempt"][-1]


def _parts(outcome: stage.Outcome) -> list[dict[str, float]]:
    """Between the exit of one attempt and the first step of the next, by the record's own clock."""
    exits = [event["m"] for event in outcome.events("exit")]
    starts = [event["m"] for event in outcome.events("attempt")][1:]
    keras = [event for event in outcome.events("agent") if event.get("framework") == "keras"]
    awake = [event["m"] for event in keras if event.get("state") == "awake"][1:]
    resumed = [event["m"] for event in outcome.events("resumed")]
    saved = [event["m"] for event in outcome.events("checkpoint")]
    found = []
    for index, (start, imported, went_on) in enumerate(zip(starts, awake, resumed, strict=False)):
        first = next((time for time in saved if time > went_on), went_on)  # the first step is saved at once
        part = {
            "verdict and start": start - exits[index],
            "python and framework": imported - start,
            "script and restore": went_on - imported,
            "trace and first step": first - went_on,
        }
        found.append(part)
    return found


if __name__ == "__main__":
    main()
