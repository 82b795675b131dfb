"""The command line: one verb per file; each parses, calls and renders, and holds no logic.

Only the verb that was asked for is imported, so that `keepfit why` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ..supervise.launch import Before

USAGE, INTERNAL, CANNOT_WRITE = 64, 70, 73

VERBS = {
    "run": "supervise a command: record it, guard it, explain its end",
    "why": "why a run died (the latest, unless one is named)",
    "runs": "list recorded runs",
    "checkpoints": "list and verify a run's saved states",
    "plan": "what a training will need, before it is run",
    "check": "look through data files before they are trained on",
    "replay": "open the batch of a step that was not finite again",
    "export": "the newest good state as an ordinary Keras file",
    "watch": "attach to a process that already runs, read-only",
    "rules": "the catalogue of conditions, a line each",
    "explain": "the long story of one condition",
    "doctor": "what this machine lets keepfit see and do",
    "demo": "the two-minute tour",
    "completions": "a completion script for bash, zsh or fish",
}


class UserError(Exception):
    """A user's mistake: one clear line, and an exit status."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status


def entry() -> NoReturn:
    """What the `keepfit` on PATH calls: with the environment as it came, and an end that a shell can read."""
    from ..supervise.launch import Before
    from .inherited import fill_standard_descriptors, restore

    closed = fill_standard_descriptors()
    status = main(before=Before(restore(), closed))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # nobody reads any more
    if status < 0:
        from ..supervise.posture import end_by

        end_by(-status)
    os._exit(status)  # nothing is left to be tidied up, and a command line waits for us


def main(argv: Sequence[str] | None = None, before: Before | None = None) -> int:
    """The exit status; below 0, the signal to end by. `before`: what was true before Python came."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by whoever started us: nothing is to be said there
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the process' whole life
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a letter is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _dispatch(words, before)
        sys.stdout.flush()  # what cannot be written is found out here, not when Python is about to leave
        return status
    except UserError as error:
        from .selection import say

        say(str(error))
        return error.status
    except BrokenPipeError:
        # The reader (head, less) is gone: that is its right. Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return -signal.SIGINT
    except Exception as error:
        import errno

        from .selection import say

        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            say(f"no space left on the device of {error.filename or 'stdout'}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return CANNOT_WRITE
        if os.environ.get("KEEPFIT_DEBUG"):
            raise
        say(f"internal failure: {error!r} (KEEPFIT_DEBUG=1 shows more)")
        return INTERNAL


def _dispatch(words: list[str], before: Before | None) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if words else USAGE
    if words[0] in ("-V", "--version"):
        from .._version import __version__

        print(f"keepfit {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        raise UserError(f"unknown verb {verb!r}; {_meant(words)}")
    from importlib import import_module

    from .parser import Parser

    module = import_module(f".{verb}", __package__)
    parser = Parser.of(verb, module)
    args = module.parse(parser, rest) if hasattr(module, "parse") else parser.parse_args(rest)
    args.before = before or _nothing_known()
    status: int = module.main(args)
    return status


def _nothing_known() -> Before:
    from ..supervise.launch import Before

    return Before()


def _meant(words: list[str]) -> str:
    """What somebody may have wanted who gave a verb that there is not."""
    import difflib
    import shlex
    import shutil

    if near := difflib.get_close_matches(words[0], VERBS, n=2):
        return f"did you mean {' or '.join(near)}?"
    from ..machine.interpreter import NAME

    if os.path.exists(words[0]) or shutil.which(words[0]) or NAME.fullmatch(words[0]):
        script = not os.access(words[0], os.X_OK) and words[0].endswith(".py")
        return f"did you mean: keepfit run -- {shlex.join(['python', *words] if script else words)}"
    return f"verbs: {', '.join(VERBS)}"


def _overview() -> str:
    lines = [
        "keepfit keeps model.fit alive: it records, prevents, recovers and explains.",
        "",
        "usage: keepfit VERB …",
        "",
    ]
    lines += [f"  {verb:<13}{text}" for verb, text in VERBS.items()]
    lines += ["", "first steps: keepfit run -- python train.py    then: keepfit why"]
    return "\n".join(lines)
