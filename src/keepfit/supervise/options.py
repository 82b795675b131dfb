"""What the user asked of `run`, and of `plan`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..blackbox.rundir import RunDirectory
from ..facts import MemoryLimit
from ..quick import dataclass, field
from .launch import Before

GUARDS = ("memory", "hang", "checkpoint", "numbers")
ON_NAN = ("skip", "rollback", "stop")
ON_BAD_SAMPLE = ("skip", "stop")
KEEP = 64 << 20  # bytes of a poisoned batch, and of the weights it met
# Seconds that a planned script may take to come to its training call, and that the search for the largest batch may.
COMING, SEARCHING = 600.0, 120.0


@dataclass(frozen=True)
class RunOptions:
    argv: tuple[str, ...]
    runs: Path
    name: str = ""
    memory: int | None = None  # budget in bytes
    guards: frozenset[str] = frozenset(GUARDS)
    hang_after: float | None = None
    restarts: int = 3
    quiet: bool = False
    on_nan: str | None = None  # as ON_NAN has it; None: nothing was said, and callbacks see what was not finite
    on_bad_sample: str = ON_BAD_SAMPLE[-1]
    clip: str | None = None  # the most that the norm of all gradients may be, or auto
    keep: int = KEEP  # bytes of a poisoned batch that go into the record; 0: none do
    continued: RunDirectory | None = None  # an unfinished run that is to go on
    force_resume: bool = False  # whatever has changed
    words: tuple[str, ...] = ()  # these options, as they are typed
    before: Before = field(default_factory=Before)  # Python came


def asked_for(guards: frozenset[str], **options: object) -> frozenset[str]:
    """The guards, and those that an option asks for by being given: `--guard none --hang-after 20` looks for a hang."""
    return guards | {_ASKS_FOR[name] for name, value in options.items() if value not in (None, False)}


_ASKS_FOR = {
    "hang_after": "hang",
    "on_nan": "numbers",
    "on_bad_sample": "numbers",
    "clip": "numbers",
    "resume": "checkpoint",
}


@dataclass(frozen=True)
class PlanOptions:
    argv: tuple[str, ...]
    memory: int | None = None
    reserve: int = 0
    multiple: int = 1
    most: int | None = None
    timeout: float = COMING
    search: bool = False  # for the largest batch
    search_for: float = SEARCHING
    device: MemoryLimit | None = None  # an accelerator that is not here, to plan for instead of this machine
    runs: Path | None = None  # where plans are remembered; None: nowhere
    say: Callable[[str], None] = lambda _text: None  # what goes on, to whoever waits for it
    spared: bool = False  # a pipe at standard input: somebody else is to read it


def parse_guards(text: str) -> frozenset[str]:
    """`all`, `none`, or names separated by commas."""
    if text == "all":
        return frozenset(GUARDS)
    if text == "none":
        return frozenset()
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    unknown = names - set(GUARDS)
    if unknown or not names:
        received = ", ".join(sorted(unknown)) or repr(text)
        raise ValueError(f"all, none or some of {', '.join(GUARDS)} were expected; received {received}")
    return names
