"""What changes for a command under keepfit: all of it. The page docs/what_changes.md is made from this table.

Each has a way to take it away again from what a command line prints; what is left must be the same to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Undo = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Difference:
    name: str
    what: str
    why: str
    undo: Undo  # of what is printed under keepfit, and of what is printed plainly


def _lines_without(pattern: str) -> Undo:
    unwanted = re.compile(rb"(?m)^(?:" + pattern.encode() + rb")\n")
    return lambda text: unwanted.sub(b"", text)


def _replaced(pattern: str, by: str = "") -> Undo:
    found = re.compile(pattern.encode(), re.MULTILINE)
    return lambda text: found.sub(by.encode(), text)


def _sorted(text: bytes) -> bytes:
    return b"\n".join(sorted(text.split(b"\n")))


DIFFERENCES = (
    Difference(
        "variables",
        "The environment has KEEPFIT_RECORD, _PULSE, _STATES, _RESUME, _SEED, _ATTEMPT, _FRONT and _NUMBERS; "
        "PYTHONPATH has one more folder in front.",
        "So that keepfit's agent finds its way into Python, wherever in the process tree that is started.",
        lambda text: _replaced(r"PYTHONPATH=[^\n:]*/agent/boot:", "PYTHONPATH=")(
            _lines_without(r"KEEPFIT_\w+=.*|PYTHONPATH=[^\n:]*/agent/boot")(text)
        ),
    ),
    Difference(
        "unbuffered",
        "PYTHONUNBUFFERED=1 is set where you have not set it: what Python prints through a pipe comes at once.",
        "Up to 8 KiB of output would be lost with a SIGKILL, and the last line is the one that matters.",
        _lines_without("PYTHONUNBUFFERED=1"),
    ),
    Difference(
        "order",
        "So lines of stdout and stderr that go into one pipe come in the order in which they were printed.",
        "The same.",
        _sorted,
    ),
    Difference(
        "hash seed",
        "PYTHONHASHSEED is set where you have not set it, and `random` and `numpy.random` begin with numbers of the "
        "run: as random as before, and the same again in the next attempt of that run.",
        "A training that goes on after a death draws the same split and the same order.",
        _lines_without(r"PYTHONHASHSEED=\d+"),
    ),
    Difference(
        "stacks",
        "In Python `faulthandler` is on, and writes to the record; the signal SIGRTMAX-4 makes it write, and ends "
        "nobody.",
        "The stacks of a hang and of a crash.",
        _replaced(r"faulthandler: (True|False)"),
    ),
    Difference(
        "descriptors",
        "Python holds two more files open, beyond the numbers that your limit allows you (just below 4096 where the "
        "limit is higher).",
        "The journal of the record, and the stacks.",
        _replaced(r"(?<![\d])(?:10[2-9]\d|1[1-9]\d\d|[2-3]\d\d\d|40\d\d)(?![\d])\n?"),
    ),
    Difference(
        "import hook",
        "`sys.meta_path` has one more entry at its beginning, and -X importtime shows one more line.",
        "It wakes the agent when TensorFlow, Keras, PyTorch or JAX is imported. Nothing of it is in `sys.modules` "
        "before.",
        _replaced(r"^(importers: )Watcher |^import time: .* sitecustomize\n", r"\1"),
    ),
    Difference(
        "parent",
        "The parent of your command is keepfit, which also takes its orphans; signals come from keepfit's pid.",
        "It has to see how the command ends.",
        _replaced(r"(parent|sender|orphan's parent): .*"),
    ),
    Difference(
        "terminal",
        "In a terminal the command has a pseudo-terminal of its own, and leads its session.",
        "What it shows goes into the record too. Keys that are signals reach keepfit's own group as well.",
        _replaced(r"/dev/pts/\d+"),
    ),
    Difference(
        "start",
        "A command that cannot be started is told of in keepfit's words; the status is the shell's, 127 or 126.",
        "No shell is in between.",
        _replaced(r"^(?:bash|keepfit): .*\n"),
    ),
    Difference(
        "kind",
        "A file, socket or device at stdout or stderr is a pipe for the command: it cannot be read, sought in, cut or "
        "synced, and a full disk is told one write later.",
        "What the command prints goes into the record, too.",
        _replaced(r"kind of stdout: \w+"),
    ),
    Difference(
        "pipes",
        "A pipe at stdout or stderr holds 1 MiB, not 64 KiB.",
        "A program that prints a lot does not wait for keepfit.",
        _replaced(r"pipe holds \d+"),
    ),
)  # fmt: skip

BY_NAME = {difference.name: difference for difference in DIFFERENCES}

# What no comparison of two outputs shows.
BESIDES = (
    "What is typed at a terminal before the command has started is shown twice; what is typed while it runs, and not "
    "read by it, is gone when it ends.",
    "A command in a terminal that handles Ctrl-Z itself, and would stop then, goes on.",
    "In a working directory that is gone the shell of keepfit's launcher says so in a line.",
    "SIGSTOP stops keepfit and not your command when it is sent to keepfit's pid: nobody can pass it on.",
    "A pipe or socket that your command inherits beyond stdin, stdout and stderr is held open by keepfit too: whoever "
    "reads it sees its end only when the command has ended.",
    "A background process that the command leaves in a terminal, without `setsid` or `nohup`, is hung up when it ends.",
    "With `--memory` the command lives in a cgroup of its own.",
    "What a training gains (micro-batches, saved states, the gate for numbers) is told in its own pages.",
)
