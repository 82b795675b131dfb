"""Last words: the exception that ended the interpreter, in plain words.

Nothing of the user's is replaced: the exception is read at exit from where Python itself leaves it. It uses nothing
but what every Python has loaded: an import at that point may run code from text, after which Python would no longer
know that it was ended by Ctrl-C.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

MAX_MESSAGE = 2000
MAX_CHAIN = 8
MAX_LINE = 500
# Of what `blackbox.secrets` looks for: without any there is nothing to mask.
_HINTS = ("pass", "pwd", "token", "secret", "key", "auth", "cred", "bearer", "cookie", "sig", "://", "@", "_", "-")
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STDLIB = os.path.realpath(os.path.dirname(os.__file__))


def last_words(process: "Any", error: BaseException) -> None:
    process.write("python-error", pid=process.pid, **describe(error))


def describe(error: BaseException) -> "dict[str, Any]":
    """An exception in plain words: type, message, the user's own frame, what it was raised from."""
    try:
        message = _masked(_shortened(_unpainted(str(error))), error)
    except Exception:  # a user's __str__ may itself fail
        message = ""
    number = getattr(error, "errno", None)
    return {
        "type": _type_name(type(error)),
        "message": message,
        "bases": [_type_name(base) for base in type(error).__mro__[1:-1]],
        "errno": number if isinstance(number, int) else None,
        "chain": [_type_name(type(one)) for one in _raised_from(error)],
        "frame": _without_secrets(own_frame(error.__traceback__), error),
    }


def _masked(text: str, error: BaseException) -> str:
    """Without secrets; where that would need an import that must not be made now (see above), left out."""
    low = text.lower()
    if not any(hint in low for hint in _HINTS):
        return text
    if isinstance(error, KeyboardInterrupt) and not all(name in sys.modules for name in ("re", "functools", "typing")):
        return ""
    try:
        from ..blackbox import secrets
    except (ImportError, OSError):  # no file may be opened any more
        return ""
    return secrets.mask_text(text)


def _unpainted(message: str) -> str:
    """Without the colours that Keras gives to some of its messages."""
    first, *painted = message.split("\x1b[")
    return first + "".join(text.partition("m")[2] for text in painted)


def _shortened(message: str) -> str:
    """Its beginning and its end: TensorFlow says where it happened first, and what happened last."""
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[: MAX_MESSAGE // 2]}\n…\n{message[-MAX_MESSAGE // 2 :]}"


def _type_name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


def _raised_from(error: BaseException) -> "list[BaseException]":
    found: "list[BaseException]" = []
    seen = {id(error)}
    while len(found) < MAX_CHAIN:
        hidden = getattr(error, "__suppress_context__", False)
        source = error.__cause__ or (None if hidden else error.__context__)
        if source is None or id(source) in seen:
            break
        error = source
        seen.add(id(error))
        found.append(error)
    return found


def own_frame(traceback: "TracebackType | None") -> "dict[str, Any] | None":
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
    return {"file": file, "line": line, "function": function, "code": _line(file, line).strip()}


def _without_secrets(frame: "dict[str, Any] | None", error: BaseException) -> "dict[str, Any] | None":
    if frame is not None:
        frame["code"] = _masked(frame["code"], error)
    return frame


def _line(file: str, number: int) -> str:
    known = sys.modules.get("linecache")  # which knows the cells of a notebook too
    if known is not None:
        text: str = known.getline(file, number)
        return text[:MAX_LINE]
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            return next((line[:MAX_LINE] for at, line in enumerate(source, 1) if at == number), "")
    except (OSError, ValueError):
        return ""


def is_users(path: str) -> bool:
    if path.startswith("<"):
        return False
    path = os.path.realpath(path)
    library = path.startswith(_STDLIB + os.sep) or "site-packages" in path or "dist-packages" in path
    return not library and not path.startswith(OURS + os.sep)
