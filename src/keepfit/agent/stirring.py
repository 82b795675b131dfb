"""What a process needs that imports one of the modules we look for; executed by `dormant`, as that is.

A random generator is given the beginning that it has in every attempt, and a framework wakes the agent.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GENERATORS = ("random", "numpy.random")
MANY_PROCESSES = 64 << 10  # bytes of the list of processes, from which on they are told apart no more

_Module = type(sys)
_paths: "Any" = sys.modules["_frozen_importlib_external"]
_stdlib = os.path.dirname(os.__file__)


class Stirring:
    def __init__(self, process: "Any", open_in: "Any") -> None:
        self._process = process
        self._open_in = open_in
        self._waking: "Any" = None  # the rest of the agent, once it is there
        self._identity: "str | None" = None
        self._seed: "int | None" = None
        self._stands_aside = False  # a profile is to show the program and nothing else

    # --- imports --------------------------------------------------------------------------------------

    def followed(self, watcher: "Any", name: str, path: "Any") -> "Any":
        """The module's spec, and what is to be done when it is imported; None where it cannot be found."""
        try:
            spec = self._find(watcher, name, path)
            if spec is not None and hasattr(spec.loader, "exec_module"):
                self._follow(watcher, name, spec)
            return spec
        except Exception as error:  # the import itself must go on
            self._failed(name, error)
            return None

    def _find(self, watcher: "Any", name: str, path: "Any") -> "Any":
        for finder in sys.meta_path:
            if finder is not watcher and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, None)
                if spec is not None:
                    return spec
        return None

    def _follow(self, watcher: "Any", name: str, spec: "Any") -> None:
        run = spec.loader.exec_module
        by = None if name in GENERATORS or self._process.planned else watched_by()
        waking = None if name in GENERATORS or by else self.awaken()

        def exec_module(module: "Any") -> None:
            watcher.wanted.discard(name)  # looked for is not imported: TensorFlow asks for keras long before
            if waking is not None:
                try:
                    waking.importing(name, module, run)
                except BaseException as error:
                    waking.hide(error)  # so that Python knows all of what is left as its import machinery
                    raise
                return
            run(module)
            try:
                if name in GENERATORS:
                    self._begin_generator(name, module)
                elif not self._stands_aside:
                    self._stands_aside = True
                    self._process.write("report", kind="aside", framework=name, by=by)
            except Exception as error:
                self._failed(name, error)

        spec.loader.exec_module = exec_module  # this one instance: its type, which others look at, stays

    def _failed(self, name: str, error: Exception) -> None:
        told = type(error).__name__ + ": " + str(error)[:500]
        try:
            self._process.write("agent", state="failed", framework=name, error=told)
        except Exception:
            return  # not even that can be said

    # --- random generators ----------------------------------------------------------------------------

    @property
    def identity(self) -> "str | None":
        """Which process of a run is this? The same command line, the n-th time in its attempt; None: not known.

        A run may start several programs, one after the other. What one of them saved is not gone on from by another.
        """
        if self._identity is None and os.environ.get("KEEPFIT_STATES"):
            if os.environ.get("KEEPFIT_FRONT") == str(os.getppid()):
                self._identity = "command"  # whatever its arguments: a resume may have changed them
            else:
                self._identity = self._counted()
        return self._identity or None

    def _counted(self) -> str:
        text = self._process.command_line + b"\n" + os.getcwd().encode("utf-8", "surrogateescape")
        key = "%024x" % (int.from_bytes(text, "big") % (2**96 - 17))
        own_line = "%s %d" % (key, self._process.pid)
        folder = os.open(self._process.record, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            name = "processes-" + os.environ.get("KEEPFIT_ATTEMPT", "1")
            fd = self._open_in(folder, name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        finally:
            os.close(folder)
        try:
            if os.fstat(fd).st_size >= MANY_PROCESSES:
                return ""
            os.write(fd, own_line.encode() + b"\n")
            lines = os.pread(fd, MANY_PROCESSES + 4096, 0).decode("ascii", "replace").splitlines()
        finally:
            os.close(fd)
        alike = [line for line in lines if line.startswith(key)]
        return "%s-%d" % (key, alike.index(own_line) + 1)

    @property
    def seed(self) -> "int | None":
        """What this process' random generators begin with, the same in every attempt; None where nothing is kept."""
        if self._seed is None and (seed := os.environ.get("KEEPFIT_SEED")) and self.identity is not None:
            # One seed for the whole run: every process has its own, whose bits have nothing to do with another's.
            mixed = int(seed, 16) + int.from_bytes(self.identity.encode(), "big") * 0x9E3779B97F4A7C15
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
                mixed = ((mixed ^ (mixed >> shift)) * factor) % 2**64
            self._seed = mixed
        return self._seed

    def _begin_generator(self, name: str, module: "Any") -> None:
        """`random` or `numpy.random` has just been imported: a script that seeds nothing draws the same once more."""
        seed = self.seed
        if seed is not None:
            module.seed(seed if name == "random" else [seed % 2**32, seed // 2**32])

    # --- waking up ------------------------------------------------------------------------------------

    def awaken(self) -> "Any":
        """The rest of the agent, for good."""
        if self._waking is None:
            self._waking = self.ours("_keepfit.agent.wake").Waking(self._process, self)
        return self._waking

    def ours(self, name: str) -> "Any":
        """A module of the agent's. What it takes from the standard library, it takes from there and nowhere else.

        A script may have a `queue.py` of its own beside it: that is not ours to import, and it must still be there
        for the script when ours has been.
        """
        if "_keepfit" not in sys.modules:
            package = _Module("_keepfit")
            package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
            sys.modules["_keepfit"] = package
        before, path = set(sys.modules), sys.path[:]
        sys.path[:] = [entry for entry in path if entry.startswith(_stdlib) and "site-packages" not in entry]
        try:
            return __import__(name, fromlist=["_"])
        finally:
            sys.path[:] = path
            self._leave_to_the_script(path, set(sys.modules) - before)

    def _leave_to_the_script(self, path: "Any", brought: "set[str]") -> None:
        places = path[: next((at for at, entry in enumerate(path) if entry.startswith(_stdlib)), 0)]
        for name in {name.partition(".")[0] for name in brought} - {"_keepfit"}:
            if _paths.PathFinder.find_spec(name, places) is not None:
                for each in [each for each in brought if each == name or each.startswith(name + ".")]:
                    sys.modules.pop(each, None)


def watched_by() -> "str | None":
    """Who looks at every call that is made here, and is to see those of the program alone; None: nobody."""
    tracer = sys.gettrace()
    if sys.getprofile() is not None:
        return "a profiler"
    if tracer is not None and not type(tracer).__module__.startswith("coverage"):  # that counts lines of chosen files
        return "a debugger"
    monitoring = getattr(sys, "monitoring", None)
    for tool, name in (("PROFILER_ID", "a profiler"), ("DEBUGGER_ID", "a debugger")):
        if monitoring is not None and monitoring.get_tool(getattr(monitoring, tool)) is not None:
            return name
    return None
