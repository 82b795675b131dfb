"""The end of a run: judge it, write the verdict down, list it, and let old runs go."""

from __future__ import annotations

import os
import time

from ..blackbox import index, record, retention
from ..blackbox.journal import JournalWriter
from ..blackbox.rundir import RunDirectory
from ..blackbox.states import Vault
from ..conditions import verdict as judgement
from ..facts import Record, Verdict, verdict_json
from ..machine import kernel_log, procfs

KEPT_FOR = 3 * 86400.0  # seconds that an unfinished run's states are not given up for space


def conclude(run: RunDirectory) -> Verdict:
    """Judge a run that has just ended; the verdict goes into its journal."""
    verdict = revisit(run)
    write(run, verdict)
    if verdict.outcome == "finished":
        Vault(run.checkpoints).thin()
    return verdict


def file_away(run: RunDirectory) -> None:
    """List it, and let old runs go: nobody waits for that."""
    runs = run.path.parent
    index.put(runs, [index.row_of(run)])
    retention.apply(runs, retention.Policy.of(os.environ), lambda old: old.id == run.id or is_needed(old))


def is_needed(run: RunDirectory) -> bool:
    """Alive, or cut off not long ago with something to go on from."""
    if is_alive(run):
        return True
    newest = Vault(run.checkpoints).generations()[-1:]
    fresh = any(state.age(time.time()) < KEPT_FOR for state in newest)
    return fresh and index.row_of(run).state != "finished"


def write(run: RunDirectory, verdict: Verdict) -> None:
    journal = JournalWriter.of(run.folder)
    journal.write("verdict", **verdict_json(verdict))
    journal.close()


def is_alive(run: RunDirectory) -> bool:
    return record.load(run).alive


def revisit(run: RunDirectory) -> Verdict:
    """The verdict on any recorded run, judged afresh: newer knowledge improves old verdicts.

    Where nobody was there to see the end, the kernel log is asked now, as long as it is the same boot.
    """
    return judgement.judge(_with_kernel_log(run, record.load(run)))


def _with_kernel_log(run: RunDirectory, known: Record) -> Record:
    from dataclasses import replace

    last = known.last
    if known.alive or not known.attempts or last.witnessed:
        return known
    from ..blackbox import journal

    events, _ = journal.read(run.folder)
    head = next((e for e in events if e["event"] == "run"), {})
    # Pids come round again: only what was said after the start, and in this boot, can be about this run.
    lines = kernel_log.since(last.started - 1.0) if head.get("boot") == procfs.boot_id() else None
    if lines is None:
        return known
    told = replace(last, kernel_log=(last.kernel_log or ()) + lines)
    return replace(known, attempts=(*known.attempts[:-1], told))


def state_of(run: RunDirectory, row: index.Row) -> index.Row:
    """A row that does not claim `running` of a dead run."""
    if row.state not in index.UNFINISHED or row.cause:
        return row
    verdict = revisit(run)
    if verdict.outcome == "running":
        return row
    return index.judged(row, verdict_json(verdict), row.ended_at)
