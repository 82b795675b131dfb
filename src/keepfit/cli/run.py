"""Run a command under supervision: record it, guard it, and say why when it dies.

    keepfit run [options] -- CMD …

The command runs as it would without keepfit: same terminal, same output, same exit status.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace

from ..blackbox.rundir import RunDirectory
from ..supervise import options as supervise_options
from ..supervise.launch import CannotLaunch
from ..supervise.nested import stand_aside
from ..supervise.options import RunOptions
from ..supervise.records import unfinished
from ..supervise.run import supervise
from . import UserError
from .selection import add_runs_directory, find_run, memory, positive, runs_directory, say, size

_OF_THIS_START = ("help", "resume", "force_resume", "runs_dir", "apply")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "keepfit run [options] -- CMD …"
    parser.add_argument("--memory", metavar="SIZE", help="hold the run to a memory budget, e.g. 3GiB")
    parser.add_argument(
        "--guard", metavar="NAMES", default="all", help="all, none, or some of: memory, hang, checkpoint, numbers"
    )
    parser.add_argument("--hang-after", metavar="SECONDS", help="call it hung after this long without a step")
    parser.add_argument(
        "--restarts",
        metavar="N",
        default="3",
        help="attempts after the first, where something can be changed",
    )
    parser.add_argument("--no-restart", action="store_true", help="the same as --restarts 0")
    parser.add_argument(
        "--resume",
        metavar="RUN",
        default="none",
        help="go on with an unfinished run: its id or name, or auto (the same command, directory and name)",
    )
    parser.add_argument("--force-resume", action="store_true", help="even where script, model or data have changed")
    parser.add_argument(
        "--on-nan",
        metavar="WHAT",
        help="a step that is not finite: skip (not applied; the default), rollback (to a saved state, lower learning "
        "rate) or stop. Saying skip or rollback also hides it from callbacks such as TerminateOnNaN",
    )
    parser.add_argument(
        "--on-bad-sample",
        metavar="WHAT",
        help="a sample that a tf.data map fails on: skip (left out) or stop (as TensorFlow does)",
    )
    parser.add_argument(
        "--clip",
        metavar="NORM",
        help="bound the norm of all gradients together: a number, or auto (the 95th percentile of the last 500 steps)",
    )
    parser.add_argument(
        "--keep-batch",
        metavar="SIZE",
        default=str(supervise_options.KEEP),
        help="most bytes of a poisoned batch that go into the record (0: none)",
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="plan first (the script runs up to its training call, then from its beginning again), and begin with the "
        "plan's exact options",
    )
    parser.add_argument("--name", default="", help="a name for this run")
    parser.add_argument(
        "--quiet", action="store_true", help="say nothing, the verdict included; `keepfit why` still does"
    )
    add_runs_directory(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …")


def parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Everything after the first `--` is the command's, whatever it looks like."""
    cut = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:cut])
    args.command = args.command + words[cut + 1 :]
    args.words = _as_typed(parser, args)
    return args


def _as_typed(parser: argparse.ArgumentParser, args: argparse.Namespace) -> tuple[str, ...]:
    """The options once more, for whoever goes on with this run; without those that say which run that is, and where."""
    words: list[str] = []
    for action in parser._actions:
        value = getattr(args, action.dest, action.default)
        if action.dest in _OF_THIS_START or not action.option_strings or value == action.default:
            continue
        words += action.option_strings[-1:] if action.nargs == 0 else [action.option_strings[-1], str(value)]
    return tuple(words)


def main(args: argparse.Namespace) -> int:
    if not args.command or not args.command[0]:
        raise UserError("a command was expected after --, such as: keepfit run -- python train.py")
    options = _options(args)
    environment: Mapping[str, str] = os.environ
    try:
        stand_aside(options.argv, environment, options.memory, options.before, say)
        if args.apply:
            from ..supervise import planning

            applied = planning.apply(options, environment)
            environment = {**environment, **applied.environment}
            if not options.quiet:
                say(applied.said)
        return supervise(options, environment, _conclusion)
    except CannotLaunch as error:
        raise UserError(str(error), error.status) from None


def _options(args: argparse.Namespace) -> RunOptions:
    try:
        options = RunOptions(
            argv=tuple(args.command),
            runs=runs_directory(args),
            name=args.name,
            memory=memory(args),
            guards=supervise_options.asked_for(
                supervise_options.parse_guards(args.guard),
                hang_after=args.hang_after,
                on_nan=args.on_nan,
                on_bad_sample=args.on_bad_sample,
                clip=args.clip,
                resume=args.resume != "none",
            ),
            hang_after=positive("--hang-after", args.hang_after),
            restarts=0 if args.no_restart else _count("--restarts", args.restarts),
            quiet=args.quiet,
            on_nan=_one_of("--on-nan", args.on_nan, supervise_options.ON_NAN) if args.on_nan else None,
            on_bad_sample=_one_of("--on-bad-sample", args.on_bad_sample or "stop", supervise_options.ON_BAD_SAMPLE),
            clip=_clip(args.clip),
            keep=0 if args.keep_batch == "0" else size("--keep-batch", args.keep_batch),
            force_resume=args.force_resume,
            before=args.before,
            words=args.words,
        )
    except ValueError as error:
        raise UserError(str(error)) from None
    return replace(options, continued=_continued(args, options))


def _continued(args: argparse.Namespace, options: RunOptions) -> RunDirectory | None:
    if args.resume == "none":
        if args.force_resume:
            raise UserError("--force-resume: a run to go on with was expected (--resume RUN, or --resume auto)")
        return None
    if args.resume != "auto":
        return find_run(options.runs, args.resume)
    found = unfinished(options)
    if found is not None and not options.quiet:
        say(f"going on with run {found.id}")
    return found


def _clip(text: str | None) -> str | None:
    if text is not None and text != "auto":
        positive("--clip", text, "auto, or a norm")
    return text


def _one_of(name: str, text: str, words: tuple[str, ...]) -> str:
    if text not in words:
        raise UserError(f"{name}: {' or '.join(words)} was expected; received {text!r}")
    return text


def _count(name: str, text: str) -> int:
    if not text.isdigit():
        raise UserError(f"{name}: a whole number from 0 was expected; received {text!r}")
    return int(text)


def _conclusion(run: RunDirectory, options: RunOptions) -> str:
    """What the user sees at the end: what keepfit had to do, if anything, or one screen of why it died."""
    from ..supervise.conclude import conclude

    verdict = conclude(run)
    if options.quiet:
        return ""
    if verdict.outcome == "finished":
        return f"keepfit: {verdict.summary}" if verdict.summary != "finished" else ""
    from ..report import style, verdict_text
    from ..supervise import way_on

    further = way_on.of(run, verdict)
    told = (further.saved_at, further.command) if further is not None else ("", "")
    return "\n" + verdict_text.render(verdict, style.wanted(sys.stderr), style.width(sys.stderr), *told)
