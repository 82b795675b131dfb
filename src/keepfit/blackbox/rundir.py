"""The run directory: one per run, mode 0700, holding all that is known about it.

journal.jsonl   events, findings, attempts
ring            samples and heartbeats
stdout, stderr  the last 256 KiB of each
stacks/         Python stacks of a hang or a fatal signal
checkpoints/    saved states of the training
batches/        batches whose step was not finite, and the weights they met
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from .folder import Folder, NotOurs

JOURNAL, RING, STDOUT, STDERR, LOCK = "journal.jsonl", "ring", "stdout", "stderr", "lock"
STACKS, CHECKPOINTS, BATCHES = "stacks", "checkpoints", "batches"

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
_ID = re.compile(rf"\d{{8}}-\d{{6}}-[{_ALPHABET}]{{4,8}}")


def default_runs_directory(environment: Mapping[str, str]) -> Path:
    """`$KEEPFIT_RUNS`, else `$XDG_STATE_HOME/keepfit/runs`, else `~/.local/state/keepfit/runs`."""
    if chosen := environment.get("KEEPFIT_RUNS"):
        return Path(chosen).expanduser()
    state = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state, "keepfit", "runs")


def new_id(now: float | None = None) -> str:
    """Sorts by time, reads as a date, and is unique: `20261115-031502-k7f3`.

    The first two letters are the part of the second, so that runs of the same second sort too.
    """
    now = time.time() if now is None else now
    base = len(_ALPHABET)
    high, low = divmod(int(now % 1 * base * base), base)
    chance = int.from_bytes(os.urandom(4), "little") % (base * base)
    suffix = "".join(_ALPHABET[place] for place in (high, low, *divmod(chance, base)))
    return time.strftime("%Y%m%d-%H%M%S", time.localtime(now)) + "-" + suffix


def following(run_id: str) -> str:
    """The next id of the same second: a run that begins later sorts later, also when the clock was set back."""
    if not run_id:
        return ""
    date, dash, suffix = run_id.rpartition("-")
    base, number = len(_ALPHABET), 0
    for letter in suffix:
        number = number * base + _ALPHABET.index(letter)
    number += 1
    if number >= base ** len(suffix):
        return run_id + _ALPHABET[0]  # the last there is: a longer one sorts behind it
    letters = ""
    for _ in suffix:
        number, place = divmod(number, base)
        letters = _ALPHABET[place] + letters
    return date + dash + letters


class RunDirectory:
    """One run's record. Nothing in it is used before it is known that it is ours alone, and so is what is above it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, runs: Path) -> RunDirectory:
        runs.mkdir(parents=True, exist_ok=True, mode=0o700)
        above = Folder.open(str(runs))
        for _ in range(8):
            newest = max((name for name in above.names() if _ID.fullmatch(name)), default="")
            run = cls(runs / max(new_id(), following(newest)))
            try:
                run.folder = above.make(run.id)
            except FileExistsError:
                continue
            run.folder.make(STACKS)
            return run
        raise FileExistsError(f"no free run id under {runs}")

    @cached_property
    def folder(self) -> Folder:
        """OSError, NotOurs among them, where it cannot be used."""
        return Folder.open(str(self.path.parent)).folder(self.path.name)

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def batches(self) -> Path:
        return self.path / BATCHES

    def remove(self) -> None:
        """All of it, and nothing outside."""
        Folder.open(str(self.path.parent)).remove(self.path.name)

    def size(self) -> int:
        """Bytes on disk."""
        try:
            return self.folder.size()
        except OSError:
            return 0


def all_runs(runs: Path) -> list[RunDirectory]:
    """Every directory of ours that holds a journal, oldest first. NotOurs where `runs` may be somebody else's."""
    above = _above(runs)
    present = [folder.path for folder in above.folders() if folder.holds(JOURNAL)] if above else []
    return [RunDirectory(Path(path)) for path in present]


def of_others(runs: Path) -> int:
    """How many directories there are passed over because somebody else made them, or could change them."""
    above = _above(runs)
    return above.strangers() if above else 0


def _above(runs: Path) -> Folder | None:
    """None where there is none yet."""
    try:
        return Folder.open(str(runs))
    except FileNotFoundError:
        return None
    except NotOurs:
        raise
    except OSError as error:
        raise NotOurs(str(runs), f"cannot be read ({error.strerror})") from None
