"""The saved states of a run: each one read, verified and listed, newest last.

A state that is not what was written is named, with the reason; it would never be loaded.
"""

from __future__ import annotations

import argparse
import sys
import time

from ..blackbox.safetensors import Damaged
from ..blackbox.states import Generation, Vault
from ..conditions.reading import size
from ..report import style, tables
from .selection import add_json, add_run, add_runs_directory, find_run, print_json, runs_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_json(parser)
    add_runs_directory(parser)


def main(args: argparse.Namespace) -> int:
    run = find_run(runs_directory(args), args.run)
    found = [_document(generation) for generation in Vault(run.checkpoints).generations()]
    if args.json:
        print_json({"schema": "keepfit.checkpoints/1", "run": run.id, "checkpoints": found})
    elif not found:
        print(f"run {run.id} has no saved states", file=sys.stderr)
    else:
        header = ("STATE", "OF", "GOES ON AT", "SIZE", "SAVED", "VERIFIED")
        rows = [_row(state) for state in found]
        print(tables.render(header, rows, style.width(sys.stdout), style.wanted(sys.stdout)))
    return 0


def _document(generation: Generation) -> dict[str, object]:
    known: dict[str, object] = {"generation": generation.number, "bytes": generation.size(), "good": True, "why": None}
    try:
        manifest = generation.verified()
    except Damaged as damage:
        return {**known, "good": False, "why": str(damage)}
    return {
        **known,
        "fit": manifest.fit,
        "kind": manifest.kind,
        "epoch": manifest.epoch,
        "batch": manifest.batch,
        "step": manifest.step,
        "written_at": manifest.written,
    }


def _row(state: dict[str, object]) -> list[str]:
    number, bytes_ = str(state["generation"]), size(float(str(state["bytes"])))
    if not state["good"]:
        return [number, "-", "-", bytes_, "-", f"damaged: {state['why']}"]
    ended = state["kind"] == "end"
    where = "its end" if ended else f"epoch {int(str(state['epoch'])) + 1}, batch {int(str(state['batch'])) + 1}"
    saved = tables.ago(time.time() - float(str(state["written_at"])))
    return [number, f"fit {state['fit']}", where, bytes_, saved, "good"]
