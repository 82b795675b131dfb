"""GPUs through NVML, in a process of their own: a wedged driver blocks for ever, and must block no one.

`main` is what that process runs: it prints one JSON line a second. The supervisor
starts it only where the driver is loaded, reads what is there, and never waits for it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import bounded, interpreter

if TYPE_CHECKING:
    import subprocess


def driver_loaded(dev: str = "/dev") -> bool:
    return os.path.exists(os.path.join(dev, "nvidiactl"))


def devices(nvml: Any, pids: Iterable[int] | None = None) -> list[dict[str, Any]]:
    """Memory of every device, and of every process on it (all, or those asked for).

    `nvml` is the pynvml module, or something that answers like it.
    """
    wanted = None if pids is None else set(pids)
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        processes = [
            {"pid": p.pid, "bytes": p.usedGpuMemory}
            for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            if wanted is None or p.pid in wanted
        ]
        name = nvml.nvmlDeviceGetName(handle)
        found.append(
            {
                "index": index,
                "name": name.decode() if isinstance(name, bytes) else name,
                "used_bytes": memory.used,
                "total_bytes": memory.total,
                "free_bytes": memory.free,
                "processes": processes,
            }
        )
    return found


def snapshot(seconds: float = 3.0) -> list[dict[str, Any]] | None:
    """One reading, bounded in time; None without a driver, or with one that does not answer."""
    if not driver_loaded():
        return None
    text = bounded.output(interpreter.of_our_own("keepfit.machine.gpu", "--once"), seconds)
    try:
        return list(json.loads(text)["gpus"]) if text else None
    except (ValueError, KeyError, TypeError):
        return None


class GpuProbe:
    """The latest word of the probe process; `None` while there is none."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self.latest: list[dict[str, Any]] | None = None
        self.heard: float | None = None
        if driver_loaded():
            import subprocess

            try:
                self._process = subprocess.Popen(
                    interpreter.of_our_own("keepfit.machine.gpu"),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except OSError:
                return
            assert self._process.stdout is not None
            os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def poll(self, now: float) -> list[dict[str, Any]] | None:
        if self._process is None or self._process.stdout is None:
            return None
        try:
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            chunk = b""
        except OSError:
            return self.latest
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            try:
                self.latest, self.heard = list(json.loads(line)["gpus"]), now
            except (ValueError, KeyError, TypeError):
                continue
        return self.latest

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()  # not waited for: in a wedged driver it cannot even die
            self._process = None


def main(*words: str) -> int:
    try:
        import pynvml
    except ImportError as error:
        print(json.dumps({"gpus": [], "why_not": str(error)}), flush=True)
        return 0
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        print(json.dumps({"gpus": [], "why_not": str(error)}), flush=True)
        return 0
    parent = os.getppid()
    while True:
        try:
            print(json.dumps({"gpus": devices(pynvml)}), flush=True)
        except pynvml.NVMLError as error:
            print(json.dumps({"gpus": [], "why_not": str(error)}), flush=True)
        except BrokenPipeError:
            return 0
        if "--once" in words or os.getppid() != parent:
            return 0
        time.sleep(1)
