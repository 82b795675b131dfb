"""What every Python process of a run carries until it imports a framework: next to nothing.

It runs before the script's first line, mostly in processes that will never train. So it costs a millisecond, and what
it needs beyond what Python has loaded by itself it takes past `sys.modules`: a script's own `token.py` stays the
script's. What is seldom needed comes with the first import that we look for (`stirring`), and the rest of the agent
with a framework (`wake`).

Executed by `boot/sitecustomize.py`, and never imported: this file's functions live in no module.
"""

import os
import stat
import sys
import time

TYPE_CHECKING = False  # `typing` is not loaded in every process
if TYPE_CHECKING:
    from typing import Any

FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "torch", "jax")
GENERATORS = ("random", "numpy.random")  # whose beginnings are the same in every attempt
# Command lines of interpreters that Python's own machinery starts: they are left alone, unless they might train what
# is only to be planned.
WORKERS = (
    "--multiprocessing-fork",
    "from multiprocessing.",
    "joblib.externals.loky",
    "ipykernel_launcher --subprocess",
)
MAX_STACK_FILES = 32
FAR = 4096  # a number of a descriptor that a program hardly comes to by itself
LONGEST = 1 << 17  # bytes of a command line that are looked at
FEW = 64  # descriptors; where a process may have no more than these, none is kept open

_Module = type(sys)
_machinery: "Any" = sys.modules["_frozen_importlib"]
_paths: "Any" = sys.modules["_frozen_importlib_external"]
_stdlib = os.path.dirname(os.__file__)
_here = os.path.dirname(os.path.abspath(__file__))


def start(record: str) -> None:
    fd = os.open("/proc/self/cmdline", os.O_RDONLY | os.O_CLOEXEC)
    command_line = os.read(fd, LONGEST)
    os.close(fd)
    planned = bool(os.environ.get("KEEPFIT_PLAN"))
    words = command_line.replace(b"\0", b" ").decode("utf-8", "replace")
    if any(mark in words for mark in WORKERS) and not planned:
        return
    process = Process(record, command_line, planned)
    process.begin()
    sys.meta_path.insert(0, Watcher(process))
    if planned:
        process.more().awaken()


class Process:
    """This one: its place in the record, and what it says there."""

    def __init__(self, record: str, command_line: bytes, planned: bool) -> None:
        self.record = record
        self.planned = planned
        self.pid = os.getpid()
        self.command_line = command_line
        self.stacks: "int | None" = None  # the descriptor that Python's stacks are written to
        self._more: "Any" = None
        self._journal: "int | None" = None
        self._known_as: "tuple[int, int] | None" = None  # device and inode of the journal
        self.signal: "int | None" = None  # that makes it write its stacks
        self._last_words = code_of("lifeline")  # now: at the end there may be no file left to open

    def begin(self) -> None:
        folder = os.open(self.record, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise PermissionError(self.record)
            self._keep(open_in(folder, "journal.jsonl", os.O_WRONLY | os.O_APPEND))
            self._arm(folder)
        finally:
            os.close(folder)
        own("atexit").register(self.end)
        version, armed = sys.version.split()[0], self.signal if self.stacks is not None else None
        self.write(
            "agent", state="ready", pid=self.pid, parent=os.getppid(), python=version, executable=sys.executable or "",
            stack_signal=armed, stack_fd=self.stacks,
        )  # fmt: skip

    # --- saying ---------------------------------------------------------------------------------------

    def open_journal(self) -> int:
        folder = os.open(self.record, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return open_in(folder, "journal.jsonl", os.O_WRONLY | os.O_APPEND)
        finally:
            os.close(folder)

    def _keep(self, fd: int) -> None:
        self._known_as = identity(fd)
        self._journal = out_of_reach(fd)
        if self._journal is None:
            os.close(fd)

    def journal(self) -> "tuple[int | None, Any]":
        """(a descriptor of the journal or None, how it is opened again): for those who write more than a line."""
        return self._journal, self.open_journal

    def write(self, event: str, **facts: "Any") -> None:
        """One line of the journal, as `blackbox.journal` writes them."""
        told = {"event": event, "t": round(time.time(), 3), "m": round(time.monotonic(), 4), **facts}
        line = as_json(told).encode() + b"\n"
        fd = self._journal
        if fd is not None and identity(fd) == self._known_as:
            os.write(fd, line)
            return
        fd = self.open_journal()
        try:
            if identity(fd) == self._known_as:
                os.write(fd, line)
        finally:
            os.close(fd)

    # --- last words -----------------------------------------------------------------------------------

    def _arm(self, folder: int) -> None:
        """Stacks at a fatal signal, and where the supervisor asks for them; only where the user has nothing there."""
        faulthandler, signals = own("faulthandler"), sys.modules["_signal"]
        # A real-time signal: the ordinary ones (SIGUSR1, …) belong to users and schedulers.
        number = signals.SIGRTMAX - 4
        stacks = os.open("stacks", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if len(os.listdir(stacks)) >= MAX_STACK_FILES:
                return
            fd = open_in(stacks, "%d.txt" % self.pid, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        finally:
            os.close(stacks)
        self.stacks = out_of_reach(fd)
        if self.stacks is None:
            os.close(fd)
            return
        if not faulthandler.is_enabled():
            faulthandler.enable(file=self.stacks, all_threads=True)
        if signals.getsignal(number) == signals.SIG_DFL:
            faulthandler.register(number, file=self.stacks, all_threads=True)
            self.signal = int(number)

    def end(self) -> None:
        if os.getpid() != self.pid:
            return  # a forked child that exits through Python's own exit
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        try:
            if error is not None:
                self._tell(error)
            self.write("agent", state="ended", pid=self.pid, error=error is not None)
        except Exception:
            return  # no file may be opened any more, or the record is gone: then it ends without a word of ours

    def _tell(self, error: BaseException) -> None:
        try:
            self.more().ours("_keepfit")
        except Exception:
            pass  # no file may be opened any more: what would have to be masked is left out
        executed("lifeline", self._last_words)["last_words"](self, error)

    def more(self) -> "Any":
        """What most processes never need."""
        if self._more is None:
            code = code_of("stirring")
            sys.modules["_imp"]._fix_co_filename(code, "<frozen importlib._bootstrap>")  # as this file's own
            self._more = executed("stirring", code)["Stirring"](self, open_in)
        return self._more


class Watcher:
    """Sees every import first, answers none, and follows the few it is interested in."""

    def __init__(self, process: Process) -> None:
        self.process = process
        keeps = process.planned or os.environ.get("KEEPFIT_STATES")
        self.wanted = {*FRAMEWORKS, *(GENERATORS if keeps else ())}

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in self.wanted:
            return None
        process = self.process
        if os.getpid() != process.pid and not process.planned:
            return None  # a forked child: it may train what is only planned
        return process.more().followed(self, name, path)


# --- the little that is needed of the standard library, and of our own ---------------------------------------------


def own(name: str) -> "Any":
    """A module of the standard library's for ourselves: what the script imports by that name is its own affair."""
    known = sys.modules.get(name) or _own.get(name)
    if known is not None:
        return known
    if sys.version_info < (3, 10):  # there such modules have one state, and not one in each
        return __import__(name)
    spec = _machinery.BuiltinImporter.find_spec(name)
    if spec is None:
        spec = _paths.PathFinder.find_spec(name, [_stdlib, os.path.join(_stdlib, "lib-dynload")])
    if spec is None:
        raise ImportError(name)
    module = _machinery.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)
    _own[name] = module
    return module


_own: "dict[str, Any]" = {}


def code_of(name: str) -> "Any":
    """A file beside this one, compiled."""
    return _paths.SourceFileLoader("_keepfit.agent." + name, os.path.join(_here, name + ".py")).get_code(
        "_keepfit.agent." + name
    )


def executed(name: str, code: "Any") -> "dict[str, Any]":
    """What it defines; it becomes no module."""
    whole = "_keepfit.agent." + name
    names = {"__name__": whole, "__package__": "_keepfit.agent", "__file__": os.path.join(_here, name + ".py")}
    exec(code, names)
    return names


def open_in(folder: int, name: str, flags: int) -> int:
    """A regular file of ours in that directory, never through a link."""
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
    known = os.fstat(fd)
    if not stat.S_ISREG(known.st_mode) or known.st_uid != os.geteuid():
        os.close(fd)
        raise PermissionError(name)
    if flags & os.O_CREAT and known.st_mode & 0o777 != 0o600:
        os.chmod(fd, 0o600)
    return fd


def identity(fd: int) -> "tuple[int, int] | None":
    """Which file that is; None where nothing is open there."""
    try:
        known = os.fstat(fd)
    except OSError:
        return None
    return known.st_dev, known.st_ino


def out_of_reach(fd: int) -> "int | None":
    """The same file under a number that a program's own files hardly ever get, and `closerange` seldom closes.

    That is beyond what it may open, where we may go further; else as far up as it can go. None, and the descriptor is
    as it was, where it may open so few that it would miss one.
    """
    soft = os.sysconf("SC_OPEN_MAX")
    if not 0 <= soft <= FAR:  # (-1: there is no end)
        return moved(fd, range(FAR - 1, FEW, -1))
    limits = own("resource")
    _, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    if hard != limits.RLIM_INFINITY and hard < soft + FEW:
        return moved(fd, range(soft - 1, FEW, -1)) if soft > FEW else None
    try:
        limits.setrlimit(limits.RLIMIT_NOFILE, (soft + FEW, hard))
        return moved(fd, range(soft, soft + FEW))
    finally:
        limits.setrlimit(limits.RLIMIT_NOFILE, (soft, hard))


def moved(fd: int, numbers: range) -> "int | None":
    for number in numbers:
        if identity(number) is None:
            os.dup2(fd, number, inheritable=False)
            os.close(fd)
            return number
    return None


def as_json(value: object) -> str:
    """Of what a JSON object is made of."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ", ".join(as_json(str(name)) + ": " + as_json(one) for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(as_json, value)) + "]"
    if not isinstance(value, str):
        return repr(value)
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return '"' + value + '"'
    units = value.encode("utf-16-be", "surrogatepass")
    return '"' + "".join("\\u%02x%02x" % (units[i], units[i + 1]) for i in range(0, len(units), 2)) + '"'
