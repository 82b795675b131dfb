"""Reading an attempt: the few questions that most detectors ask of the facts."""

from __future__ import annotations

import re
import signal

from ..facts import Attempt, Evidence, Frame, PythonError
from ..machine.kernel_log import OomKill, oom_kills

TAIL_LINES = 60  # of the last output; what was said long before is not why it died

# Lines that look fatal and are not: they never count as a signature.
_HARMLESS = re.compile(
    r"caller indicates that this is not a failure|exceeds \d+% of free system memory|"
    r"triggered tf\.function retracing|cuInit|libcudart|Could not find cuda drivers|"
    r"leaked (semaphore|shared_memory) objects|TF-TRT Warning|Unable to register cu\w+ factory"
)

GIB = 1 << 30


def size(count: float) -> str:
    """Bytes for people: `1.50 GiB`, `37 MiB`."""
    if count >= GIB:
        return f"{count / GIB:.2f} GiB"
    if count >= 1 << 20:
        return f"{count / (1 << 20):.0f} MiB"
    return f"{count / 1024:.0f} KiB"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# How a library ends that was refused memory, a thread or a page: abort, a segfault, a bus error.
CRASHES = (6, 11, 7)


def died_by(attempt: Attempt, *numbers: int) -> bool:
    """Whether the command itself was ended by one of these signals."""
    return attempt.exit is not None and attempt.exit.signal in numbers


_SHELLS = re.compile(r"(?:.*/)?(?:ba|da|z|k|c|tc|fi|a)?sh|.*\.sh|(?:.*/)?(?:make|xargs|env|srun|mpirun|timeout)")


def passed_on(attempt: Attempt, *numbers: int) -> bool:
    """Whether the command is a shell or its like, and exited as those do when a child was ended by a signal."""
    status = attempt.exit.status if attempt.exit else None
    starter = bool(attempt.argv) and _SHELLS.fullmatch(attempt.argv[0]) is not None
    return status is not None and status - 128 in numbers and starter


def passed_on_strength(attempt: Attempt) -> str:
    """A shell can also choose such a status by itself: without a child that was seen to end it is only possible."""
    return "likely" if attempt.child_deaths else "possible"


def by_exit(attempt: Attempt, strength: str = "certain") -> Evidence:
    end = attempt.exit
    if end is None or (end.signal is None and end.status is None):
        return Evidence("exit", "no exit status is known", "possible")
    if end.signal is not None:
        core = ", core dumped" if end.core else ""
        return Evidence("exit", f"pid {attempt.pid} ended by {signal_name(end.signal)}{core}", strength)
    return Evidence("exit", f"pid {attempt.pid} exited with status {end.status}", strength)


def failed(attempt: Attempt) -> bool:
    """Ended, and not well."""
    return not attempt.alive and not (attempt.exit is not None and attempt.exit.status == 0)


def tree_pids(attempt: Attempt) -> set[int]:
    return {attempt.pid, *(death.pid for death in attempt.child_deaths)}


def kernel_kill(attempt: Attempt) -> OomKill | None:
    """The kernel's own words about a kill in this tree: of the main process, else of a child.

    Inside a pid namespace the kernel log speaks of other pids than we know; then its lines prove nothing
    about us by themselves.
    """
    if not attempt.kernel_log or not attempt.kernel_pids_are_ours:
        return None
    ours = tree_pids(attempt)
    kills = [kill for kill in oom_kills(attempt.kernel_log) if kill.pid in ours or _inside(kill, attempt)]
    main = [kill for kill in kills if kill.pid == attempt.pid]
    chosen = main or kills
    return chosen[-1] if chosen else None


def _inside(kill: OomKill, attempt: Attempt) -> bool:
    """A process too short-lived to be seen, killed in a cgroup in which only this tree lives."""
    own = attempt.counters_before[0].path if attempt.counters_before else None
    alone = attempt.fence or (None if attempt.shares_cgroup else own)
    return bool(alone and alone != "/" and kill.task_path and (kill.task_path + "/").startswith(alone + "/"))


def counter_moved(attempt: Attempt) -> str | None:
    """The level whose `oom_kill` count grew while the command ran, in words."""
    before = {counters.path: counters for counters in attempt.counters_before}
    for after in attempt.counters_after:
        old = before.get(after.path)
        if old and after.oom_kill is not None and old.oom_kill is not None and after.oom_kill > old.oom_kill:
            return f"cgroup {after.path}: oom_kill {old.oom_kill} → {after.oom_kill} while pid {attempt.pid} ran"
    return None


def level_at_limit(attempt: Attempt) -> str | None:
    """The path of the innermost cgroup level that hit its limit while the command ran."""
    before = {counters.path: counters for counters in attempt.counters_before}
    for after in attempt.counters_after:
        old = before.get(after.path)
        if after.limit and old and (after.failures or 0) > (old.failures or 0):
            return after.path
    return None


def near_limit(attempt: Attempt, share: float = 0.95) -> bool:
    """Whether the last samples stood at the limit."""
    if attempt.limit is None or not attempt.samples:
        return False
    recent = attempt.samples[-40:]
    return max(sample.use for sample in recent) >= share * attempt.limit.bytes


def use_line(attempt: Attempt) -> Evidence | None:
    """`use 1.50 of 1.50 GiB`, from the samples."""
    if attempt.limit is None or not attempt.samples:
        return None
    words = f"use {size(attempt.peak)} of {size(attempt.limit.bytes)} ({attempt.limit.source})"
    return Evidence("samples", words, "likely")


def last_lines(attempt: Attempt) -> list[str]:
    """The last of what it said, harmless lines left out: stdout first, so that stderr has the last word."""
    lines = []
    for text in (attempt.stdout, attempt.stderr):
        kept = [line.strip() for line in text.splitlines() if line.strip()]
        lines += [line for line in kept[-TAIL_LINES:] if not _HARMLESS.search(line)]
    return lines


def said(attempt: Attempt, pattern: re.Pattern[str], signals: tuple[int, ...] = ()) -> str | None:
    """The last line that matches.

    Where the exception that ended it is known, only that exception counts: what was printed earlier may
    have been caught and mended. For the same reason words explain a death by a signal only where that signal
    is how such trouble ends (`signals`): a refused connection does not send SIGKILL.
    """
    if attempt.exit is not None and attempt.exit.signal is not None and attempt.exit.signal not in signals:
        return None
    if attempt.error is not None:
        error = attempt.error
        for text in (f"{error.type}: {error.message}", *error.chain):
            if pattern.search(text):
                return text.splitlines()[0][:300]
        return None
    for line in reversed(last_lines(attempt)):
        if pattern.search(line):
            return line[:300]
    return None


def log_evidence(line: str, strength: str = "likely") -> Evidence:
    return Evidence("log", f"“{line}”", strength)


def is_a(error: PythonError | None, *names: str) -> bool:
    """Whether the exception is of one of these types, by its own or a base's last name."""
    if error is None:
        return False
    kinds = {name.rsplit(".", 1)[-1] for name in (error.type, *error.bases)}
    return bool(kinds & set(names))


def error_evidence(error: PythonError) -> Evidence:
    message = error.message.splitlines()[0][:200] if error.message else ""
    source = "log" if error.told_by == "log" else "agent"
    strength = error_strength(error)
    return Evidence(source, f"{error.type.rsplit('.', 1)[-1]}: {message}".rstrip(": "), strength)


def error_strength(error: PythonError | None) -> str:
    return "certain" if error is not None and error.told_by == "agent" else "likely"


def at(frame: Frame | None) -> dict[str, object]:
    """Where, from a frame of the user's own code."""
    return {"file": frame.file, "line": frame.line} if frame else {}


_STACK_LINE = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)


def own_frame_of(stacks: str) -> Frame | None:
    """The innermost frame of the user's own in a faulthandler dump, the crashing thread first."""
    for match in _STACK_LINE.finditer(stacks):
        file = match["file"]
        if "site-packages" not in file and "/lib/python" not in file and not file.startswith("<"):
            return Frame(file, int(match["line"]), match["function"])
    return None
