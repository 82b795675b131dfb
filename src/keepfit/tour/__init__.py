"""The two-minute tour: a training that plain Python loses and keepfit finishes, and what it says of the loss.

Everything shown is real: a real training, a real memory limit, real SIGKILLs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ..machine import cgroup
from ..report.style import Style
from ..supervise import fence

LIMIT = 1 << 30
PLAIN_LIMIT = 300 << 20
HERE = Path(__file__).parent


class Tour:
    def __init__(self, colours: bool) -> None:
        self._style = Style(colours)

    def walk(self) -> int:
        framework = importlib.util.find_spec("tensorflow") is not None and importlib.util.find_spec("keras") is not None
        script, limit = (HERE / "train.py", LIMIT) if framework else (HERE / "eat.py", PLAIN_LIMIT)
        with tempfile.TemporaryDirectory(prefix="keepfit-tour-") as folder:
            self._runs = Path(folder, "runs")
            with _limited(limit) as directory:
                if directory is None:
                    self._say("No memory cgroup of our own can be made here, so keepfit alone holds the limit below.")
                else:
                    self._title(1, f"A training, in a container that allows {limit >> 20} MiB. Plain Python:")
                    self._command([sys.executable, str(script)], directory)
                    self._say("That is all there is: no error, no traceback. Was it memory? A person? The scheduler?")
            budget = f"{limit >> 20}MiB"
            if framework:
                self._title(2, f"The same script in the same {limit >> 20} MiB, with `keepfit run` in front of it:")
                self._keepfit(["run", "--memory", budget, "--", sys.executable, str(script)])
                self._say("Same batch, same steps, same results; only fewer rows at once. No line was changed.")
            self._title(3, "And if it may only watch (`--guard none`), it says what happened:")
            with _limited(limit) as directory:
                unguarded = [] if directory is not None else ["--memory", budget]
                self._keepfit(["run", *unguarded, "--guard", "none", "--", sys.executable, str(script)], directory)
            self._title(4, "Not every `Killed` is memory. Somebody else sends SIGKILL to a healthy run:")
            self._bystander()
            self._title(5, "Everything stays in the record, and `keepfit why` answers at any time:")
            self._keepfit(["runs"])
            self._say(
                "Next: keepfit run -- python train.py  ·  keepfit why  ·  keepfit doctor  ·  keepfit explain KF101"
            )
        return 0

    # --- showing ---------------------------------------------------------------------------------------

    def _title(self, number: int, text: str) -> None:
        print(f"\n{self._style(f'{number}. {text}', 'bold', 'cyan')}", flush=True)

    def _say(self, text: str) -> None:
        print(self._style(text, "dim"), flush=True)

    def _prompt(self, argv: list[str]) -> None:
        shown = ["python" if word == sys.executable else word for word in argv]
        shown = [word.replace(str(HERE) + os.sep, "") for word in shown]
        print(self._style("$ ", "dim") + shlex.join(shown), flush=True)

    def _command(self, argv: list[str], directory: str | None) -> None:
        self._prompt(argv)
        status = subprocess.run([*_into(directory), *argv], env=self._environment(), check=False).returncode
        if status == -signal.SIGKILL:
            print("Killed", flush=True)
        print(self._style(f"exit status {status if status >= 0 else 128 - status}", "dim"), flush=True)

    def _keepfit(self, words: list[str], directory: str | None = None) -> None:
        self._prompt(["keepfit", *words])
        subprocess.run(
            [*_into(directory), sys.executable, "-m", "keepfit", *words], env=self._environment(), check=False
        )

    def _bystander(self) -> None:
        argv = [sys.executable, "-c", "import time; print('epoch 1', flush=True); time.sleep(60)"]
        self._prompt(["keepfit", "run", "--", "python", "healthy.py"])
        process = subprocess.Popen(
            [sys.executable, "-m", "keepfit", "run", "--name", "healthy", "--", *argv],
            stdout=subprocess.PIPE,
            env=self._environment(),
        )
        assert process.stdout is not None
        print(process.stdout.readline().decode(), end="")
        child = _command_of(process.pid)
        self._prompt(["kill", "-9", str(child)])
        os.kill(child, signal.SIGKILL)
        process.wait()

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "KEEPFIT_RUNS": str(self._runs), "TF_CPP_MIN_LOG_LEVEL": "2"}


def _into(directory: str | None) -> list[str]:
    """A prefix that steps into the cgroup; the path is handed over as an argument, never as shell text."""
    if directory is None:
        return []
    return ["sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', directory]


@contextlib.contextmanager
def _limited(limit: int) -> Iterator[str | None]:
    made, _ = fence.build(f"tour-{os.getpid()}", limit, cgroup.placement())
    if made is None:
        yield None
        return
    made.let_go()  # an ordinary container: at its limit the kernel kills
    try:
        yield made.level.directory
    finally:
        made.remove()


def _command_of(front: int) -> int:
    """The supervised command: the child of the front that is not the judge."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for child in Path(f"/proc/{front}/task/{front}/children").read_text().split():
            if not Path(f"/proc/{child}/comm").read_text().startswith("keepfit"):
                return int(child)
        time.sleep(0.05)
    raise RuntimeError("the command did not start")
