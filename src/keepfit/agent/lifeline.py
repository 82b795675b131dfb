"""Last words: Python stacks on a hang or a fatal signal, and the exception that ended the interpreter.

Nothing of the user's is replaced: faulthandler writes to a file of ours only where the user has not
enabled it, and the exception is read at exit from where Python itself leaves it.
"""

from __future__ import annotations

import atexit
import faulthandler
import linecache
import os
import signal
import sys
import sysconfig
from types import TracebackType
from typing import Any

from ..blackbox.journal import JournalWriter

MAX_STACK_FILES = 32
MAX_MESSAGE = 2000
_LIBRARY = tuple(
    os.path.realpath(path)
    for path in {sysconfig.get_paths().get(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    if path
)
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def arm(record: str, journal: JournalWriter) -> int | None:
    """Returns the signal that makes this process write its stacks into the record, or None."""
    atexit.register(_last_words, os.getpid(), journal)
    folder = os.path.join(record, "stacks")
    try:
        if len(os.listdir(folder)) >= MAX_STACK_FILES:
            return None
        file = open(os.path.join(folder, f"{os.getpid()}.txt"), "w")  # noqa: SIM115 - for the process' whole life
    except OSError:
        return None
    if not faulthandler.is_enabled():
        faulthandler.enable(file=file, all_threads=True)
    # A real-time signal: the ordinary ones (SIGUSR1, …) belong to users and schedulers.
    number = signal.SIGRTMAX - 4
    if signal.getsignal(number) != signal.SIG_DFL:
        return None
    faulthandler.register(number, file=file, all_threads=True)
    return int(number)


def _last_words(pid: int, journal: JournalWriter) -> None:
    if os.getpid() != pid:
        return  # a forked child that exits through Python's own exit
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is not None:
        journal.write("python-error", pid=pid, **describe(error))
    journal.write("agent", state="ended", pid=pid, error=error is not None)


def describe(error: BaseException) -> dict[str, Any]:
    """An exception in plain words: type, message, the user's own frame, what it was raised from."""
    try:
        message = _shortened(_unpainted(str(error)))
    except Exception:  # a user's __str__ may itself fail
        message = ""
    number = getattr(error, "errno", None)
    return {
        "type": _type_name(type(error)),
        "message": message,
        "bases": [_type_name(base) for base in type(error).__mro__[1:-1]],
        "errno": number if isinstance(number, int) else None,
        "chain": [_type_name(type(one)) for one in _raised_from(error)],
        "frame": own_frame(error.__traceback__),
    }


def _unpainted(message: str) -> str:
    """Without the colours that Keras gives to some of its messages."""
    if "\x1b[" not in message:
        return message
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", message)


def _shortened(message: str) -> str:
    """Its beginning and its end: TensorFlow says where it happened first, and what happened last."""
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[: MAX_MESSAGE // 2]}\n…\n{message[-MAX_MESSAGE // 2 :]}"


def _type_name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


def _raised_from(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    seen = {id(error)}
    while len(found) < 8:
        hidden = getattr(error, "__suppress_context__", False)
        source = error.__cause__ or (None if hidden else error.__context__)
        if source is None or id(source) in seen:
            break
        error = source
        seen.add(id(error))
        found.append(error)
    return found


def own_frame(traceback: TracebackType | None) -> dict[str, Any] | None:
    """The innermost frame that is neither the library's nor ours; else the innermost of all."""
    chosen = last = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        last = (code.co_filename, traceback.tb_lineno, code.co_name)
        if is_users(code.co_filename):
            chosen = last
        traceback = traceback.tb_next
    best = chosen or last
    if best is None:
        return None
    file, line, function = best
    return {"file": file, "line": line, "function": function, "code": linecache.getline(file, line).strip()}


def is_users(path: str) -> bool:
    if path.startswith("<"):
        return False
    path = os.path.realpath(path)
    return not path.startswith((*_LIBRARY, OURS)) and "site-packages" not in path
