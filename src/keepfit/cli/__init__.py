"""The command line: one verb per file; each parses, calls and renders, and holds no logic.

Only the verb that was asked for is imported, so that `keepfit why` answers at once.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

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
}


class UserError(Exception):
    """A user's mistake: one clear line, and an exit status."""

    def __init__(self, message: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.status = status


class Parser(argparse.ArgumentParser):
    """argparse, with the contract's exit status and one line instead of a usage dump."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (try: {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed by whoever started us: nothing is to be said there
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the process' whole life
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a letter is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _dispatch(words)
        sys.stdout.flush()  # what cannot be written is found out here, not when Python is about to leave
        return status
    except UserError as error:
        from ..report.style import one_line  # what somebody else's words in it do to a terminal is nothing

        print(f"keepfit: {one_line(str(error))}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        # The reader (head, less) is gone: that is its right. Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            print(f"keepfit: no space left on the device of {error.filename or 'stdout'}", file=sys.stderr)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return CANNOT_WRITE
        if os.environ.get("KEEPFIT_DEBUG"):
            raise
        print(f"keepfit: internal failure: {error!r} (KEEPFIT_DEBUG=1 shows more)", file=sys.stderr)
        return INTERNAL


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if words else USAGE
    if words[0] in ("-V", "--version"):
        from .._version import __version__

        print(f"keepfit {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        import difflib

        near = difflib.get_close_matches(verb, VERBS, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"verbs: {', '.join(VERBS)}"
        raise UserError(f"unknown verb {verb!r}; {hint}")
    module = import_module(f".{verb}", __package__)
    parser = Parser(
        prog=f"keepfit {verb}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    status: int = module.main(module.parse(parser, rest) if hasattr(module, "parse") else parser.parse_args(rest))
    return status


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
