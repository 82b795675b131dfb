"""When a state is saved, and its way to the disk.

As often as one per cent of the time allows: copying, writing and their disturbance are measured, and the next
state is due when a hundred times as long has passed. Whatever the disk does, the training goes on.
"""

import time

from ...blackbox import states
from ..writer import Writer

COST = 0.01  # of the time may go into saving
SOONEST, LATEST = 1.0, 30.0  # seconds between two states, where the cost allows it
SELDOM = 600.0  # and where it does not
REST = 30.0  # after something failed
TELL_EVERY = 60.0


class Saving:
    def __init__(self, heart, vault, report, process=""):
        self._heart = heart
        self._vault = vault
        self._report = report
        self._process = process
        self._writer = Writer()
        self._number = states.next_number(vault)
        self._due = 0.0
        self._stall = 0.0  # seconds the last state kept the training waiting
        self._effort = 0.0  # and seconds of a core that writing it took
        self._ended = None  # when the last `fit` ended
        self._tell_at = 0.0
        self._described = {}  # number of a `fit` -> the file that its model was written to, and its checksum

    def begin(self):
        """A `fit` begins: its first step is saved, and from then on a death costs little."""
        self._due = 0.0

    def rest(self):
        self._due = time.monotonic() + REST

    def look(self, session, epoch, batch, between, wanted):
        """Between two steps: a state if one is due, or wanted at once (then it is on disk when this returns)."""
        if wanted:
            self._writer.wait(SELDOM)
        elif time.monotonic() < self._due or not self._writer.idle:
            return
        self._save(session, "step", epoch, batch, between)
        if wanted:
            self._writer.wait(SELDOM)

    def end(self, session, epoch):
        """A `fit` has finished. Where one follows the other after a few steps, not every end can be saved."""
        now = time.monotonic()
        self._ended, before = now, self._ended
        too_soon = before is not None and (now - before) * COST < self._stall + self._effort
        if not (too_soon and now < self._due) and self._writer.wait(LATEST):
            self._save(session, "end", epoch, 0)

    def _save(self, session, kind, epoch, batch, between=False):
        began = time.monotonic()
        snapshot = session.snapshot(kind, epoch, batch, between)
        if session.number not in self._described:
            self._described[session.number] = self._describe(session)
        snapshot.lies_beside(self._described[session.number])
        if snapshot.left_out:
            self._report("left-out", names=snapshot.left_out[:3])
            self._due = float("inf")
            return
        draft = self._draft(snapshot)
        if draft is None:
            return
        if snapshot.fits(self._heart.counsel.limit):
            snapshot.copy()
            self._stall = time.monotonic() - began
            self._due = float("inf")  # until it is written
            self._writer.submit(lambda: self._write(session, snapshot, draft))
        else:  # no room for a copy: the step waits while one variable after the other is written
            before = self._heart.enter("checkpoint")
            self._heart.doing("saving")
            self._write(session, snapshot, draft)
            self._heart.doing("stepping")
            self._heart.leave(before)
            self._stall = time.monotonic() - began
            self._plan_next()

    def _describe(self, session):
        """The model's own configuration, once, where it has one: what `export` builds it from."""
        name = states.config_name(session.number)
        try:
            known = session.configuration()
            return {} if known is None else {name: self._vault.keep(name, known)}
        except Exception:  # classes of the script's own: then there are only the weights
            return {}

    def _draft(self, snapshot):
        """Where it is written; None where the disk has no room, after the older generation had to go."""
        for kept in (None, 1):
            try:
                if kept is not None:
                    self._vault.prune(self._process, kept)
                draft = self._vault.draft(self._number, snapshot.bytes)
                self._number += 1
                return draft
            except OSError as error:
                why = error.strerror or str(error)
        self.rest()
        self._report("paused", why=why)
        return None

    def _write(self, session, snapshot, draft):
        began = time.thread_time()
        try:
            manifest = snapshot.write(draft, self._process)
        except Exception as error:
            draft.abandon()
            self.rest()
            self._report("paused", why=getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"[:200])
            return
        self._vault.prune(self._process)
        self._effort = time.thread_time() - began
        self._plan_next()
        self._tell(manifest)

    def _plan_next(self):
        cost = (self._stall + self._effort) / COST
        self._due = time.monotonic() + (min(max(SOONEST, cost), LATEST) if cost <= LATEST else min(cost, SELDOM))

    def _tell(self, manifest):
        """The record names the ends, and a state in progress now and then; the vault itself has them all."""
        now = time.monotonic()
        if self._heart.journal is not None and (manifest.kind == "end" or now >= self._tell_at):
            self._tell_at = now + TELL_EVERY
            self._heart.journal.write(
                "checkpoint", generation=manifest.number, fit=manifest.fit, kind=manifest.kind, epoch=manifest.epoch,
                batch=manifest.batch, bytes=manifest.bytes, stall=round(self._stall, 4),
            )  # fmt: skip
