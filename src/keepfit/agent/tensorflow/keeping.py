"""The saved states of this process: what it goes on from, and where it puts new ones.

The n-th training of a script (a `fit`, or a loop over `keepfit.steps`) is the n-th of its re-run.
"""

import os

from ...blackbox import states
from ...blackbox.safetensors import Damaged
from .saving import Saving

REFUSED = 64  # exit status


def keeping_of(heart):
    """The one of this process; None where nothing is to be kept."""
    if heart.keeping is None and heart.alive and heart.identity is not None:
        vault = states.Vault(os.environ["KEEPFIT_STATES"])
        heart.keeping = Keeping(heart, vault, os.environ.get("KEEPFIT_RESUME", ""), heart.identity)
    return heart.keeping


class Keeping:
    def __init__(self, heart, vault, resume, process):
        self._heart = heart
        self.process = process  # which one of the run's: another's states are not its own
        self._vault = vault
        self._resume = resume  # "" | own (a restart of keepfit's) | asked | forced
        self._begun = 0
        self._ends = {}  # number of a training that had finished -> its generation
        self._cut = None  # (generation, manifest) of the one that was cut off
        self._told = set()
        self.saving = Saving(heart, vault, self.report, process)
        if resume:
            self._look_back()

    @property
    def forced(self):
        return self._resume == "forced"

    def begin(self):
        """The number of the training that begins now."""
        self._begun += 1
        return self._begun

    # --- what there is to go on from ------------------------------------------------------------------

    def _look_back(self):
        for generation in reversed(self._vault.generations()):
            newest = self._cut is None and not self._ends
            try:
                manifest = generation.verified() if newest else generation.manifest()
            except Damaged as damage:
                if newest:
                    self._damaged(generation, damage, "the one before it is taken")
                continue
            if manifest.process != self.process:
                continue
            if manifest.kind == "end":
                self._ends.setdefault(manifest.fit, generation)
            elif newest:
                self._cut = generation, manifest

    def end_of(self, number):
        """(generation, manifest) in which a training had ended; None where it has to be trained (again)."""
        generation = self._ends.get(number)
        if generation is None:
            return None
        try:
            return generation, generation.verified()
        except Damaged as damage:
            self._damaged(generation, damage, "the training it is the end of is done again")
            return None

    def earlier(self, number, back):
        """(generation, manifest) of the `back`-th newest good state of a training; the oldest where there are fewer."""
        found = None
        for generation in reversed(self._vault.generations()):
            try:
                manifest = generation.verified()
            except Damaged:
                continue
            if (manifest.process, manifest.fit, manifest.kind) == (self.process, number, "step"):
                found, back = (generation, manifest), back - 1
                if not back:
                    break
        return found

    @property
    def waits(self):
        """Whether a later training is to be gone on with: until then nothing is written that would push it out."""
        return self._cut is not None

    def cut_of(self, number):
        """(generation, manifest) at which a training was cut off, to be gone on from once."""
        if self._cut is None or self._cut[1].fit != number:
            return None
        cut, self._cut = self._cut, None
        return cut

    def refuse(self, number, difference):
        """What was saved is of another training: it begins anew, or, where a resume was asked for, not at all."""
        self._ends, self._cut = {}, None
        self.report("refused", fit=number, why=difference, asked=self._resume == "asked")
        if self._resume == "asked":
            raise SystemExit(REFUSED)

    # --- telling --------------------------------------------------------------------------------------

    def _damaged(self, generation, damage, then):
        self.report("damaged", generation=generation.number, why=str(damage), then=then)

    def lost_position(self, error):
        self.report("lost", why=f"{type(error).__name__}: {error}"[:200])

    def not_kept(self, why):
        self.report("not-kept", why=why)

    def report(self, kind, **facts):
        """A fact for the supervisor to judge; each once."""
        key = (kind, str(sorted(facts.items())))
        if key not in self._told:
            self._told.add(key)
            self.note("report", kind=f"checkpoint-{kind}", **facts)

    def note(self, event, **facts):
        if self._heart.journal is not None:
            self._heart.journal.write(event, **facts)
