"""The zoo: every victim with the verdict it must get. The tests and `bench/verdicts.py` both walk it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keepfit.tour

from . import stage
from .stage import MIB

SURE = ("certain", "likely")


@dataclass(frozen=True)
class Expected:
    """What the verdict must say. `because` must be among the roots; `never` must not."""

    cause: str
    confidence: Sequence[str] = ("certain",)
    status: int | None = None
    because: Sequence[str] = ()
    never: Sequence[str] = ()
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Victim:
    """A program, the setting it runs in, what a bystander does to it, and its expected verdict."""

    id: str
    program: str
    expected: Expected
    args: Sequence[str] = ()
    options: Sequence[str] = ()
    setting: str = "plain"
    bystander: int | None = None  # a signal sent once it has printed `ready`
    to: str = "command"  # whom the bystander signals: the command or keepfit
    needs: Sequence[str] = ()
    slow: bool = False  # it waits for a minute or more: only `bench verdicts` has the time
    quiet: bool = False  # no finding (no suspicion of a hang) may be written
    environment: dict[str, str] = field(default_factory=dict)


def finished(**more: Any) -> Expected:
    return Expected("finished", status=0, **more)


# The tour's own training: a batch far too large, dies in the very first step of `fit`.
TOUR = str(Path(keepfit.tour.__file__).parent / "train.py")
TF = ("tensorflow",)
CG = ("cgroup",)

ZOO: tuple[Victim, ...] = (
    Victim("healthy", "healthy.py", finished()),
    Victim("healthy_fit", "healthy_fit.py", finished(), needs=TF, quiet=True),
    Victim("not_python_healthy", "not_python.sh", finished(), args=("0",)),
    Victim("not_python_fails", "not_python.sh", Expected("exit_nonzero", status=4), args=("4",)),
    # --- memory -------------------------------------------------------------------------------------
    Victim(
        "oom_in_first_step",
        TOUR,
        Expected(
            "cgroup_oom",
            status=137,
            because=("batch_too_large",),
            never=("spike", "data_preloaded"),
            where={"epoch": 0, "step": 0, "process": "main"},
        ),
        options=("--guard", "hang"),
        setting="cgroup:1000",
        needs=(*TF, *CG),
    ),
    Victim(
        "split_to_fit",
        "trains_in_budget.py",
        finished(),
        args=("512", "2", "2"),
        options=("--memory", "600MiB"),
        needs=(*TF, *CG),
    ),
    Victim(
        "model_too_large",
        "model_too_large.py",
        Expected("model_too_large", status=137, where={"phase": "train"}),
        options=("--memory", "900MiB"),
        needs=(*TF, *CG),
    ),
    Victim(
        "budget_below_the_framework",
        "healthy_fit.py",
        Expected("memory_budget", status=64, where={"phase": "import"}),
        options=("--memory", "100MiB"),
        needs=(*TF, *CG),
    ),
    Victim(
        "loop_too_large",
        "loop_too_large.py",
        Expected("memory_budget", status=137, because=("batch_too_large",)),
        options=("--memory", "600MiB"),
        needs=(*TF, *CG),
    ),
    Victim(
        "oom_in_second_epoch",
        "oom_in_second_epoch.py",
        Expected("cgroup_oom", status=137, never=("batch_too_large", "data_preloaded"), where={"epoch": 1}),
        setting="cgroup:1200",
        needs=(*TF, *CG),
    ),
    Victim(
        "oom_in_child_worker",
        "oom_in_child_worker.py",
        Expected(
            "cgroup_oom", SURE, status=1, because=("worker_died",), never=("other_process",), where={"process": "child"}
        ),
        setting="cgroup:200",
        needs=CG,
    ),
    Victim(
        "oom_nested_parent_binds",
        "eats.py",
        Expected("cgroup_oom", status=137),
        args=("400",),
        setting="nested:200",
        needs=CG,
    ),
    Victim(
        "killed_by_bystander",
        "killed_by_bystander.py",
        Expected("killed_unknown", ("certain", "likely", "possible"), status=137, never=("batch_too_large",)),
        bystander=signal.SIGKILL,
    ),
    Victim(
        "killed_by_bystander_in_cgroup",
        "eats.py",
        Expected("killed_unknown", ("certain", "likely", "possible"), status=137),
        args=("100", "60"),
        setting="cgroup:400",
        bystander=signal.SIGKILL,
        needs=CG,
    ),
    Victim(
        "budget_reached",
        "eats.py",
        Expected("memory_budget", status=137),
        args=("600",),
        options=("--memory", "200MiB"),
    ),
    Victim(
        "budget_reached_fast",
        "touches_fast.py",
        Expected("memory_budget", status=137),
        args=("4000",),
        options=("--memory", "600MiB"),
    ),
    Victim(
        "preloads_data",
        "preloads_data.py",
        Expected(
            "memory_budget",
            status=137,
            because=("data_preloaded",),
            never=("batch_too_large", "spike"),
            where={"phase": "data"},
        ),
        options=("--memory", "2GiB"),
        needs=TF,
    ),
    Victim(
        "leaks_steadily",
        "leaks_steadily.py",
        Expected("memory_budget", status=137, never=("spike", "batch_too_large", "data_preloaded")),
        options=("--memory", "700MiB", "--no-restart"),
        needs=TF,
    ),
    Victim("memory_error", "memory_error.py", Expected("allocation_failed", status=1, where={"line": 6})),
    Victim(
        "exhausted_caught",
        "exhausted_caught.py",
        Expected("allocation_failed", SURE, status=1),
        needs=TF,
    ),
    Victim(
        "shm_full",
        "shm_fills.py",
        Expected("shm_full", SURE, status=135),
        setting="shm:8m",
        needs=("mounts",),
    ),
    # --- healthy near-misses of memory --------------------------------------------------------------------
    Victim("shares_with_workers", "shares_with_workers.py", finished(), options=("--memory", "2GiB"), quiet=True),
    Victim(
        "near_the_budget",
        "eats.py",
        finished(),
        args=("380", "1"),
        options=("--memory", "400MiB"),
        quiet=True,
    ),
    Victim(
        "streams_large_file",
        "streams_file.py",
        finished(),
        args=("{file:600}",),
        setting="cgroup:96",
        needs=CG,
        quiet=True,
    ),
    Victim(
        "streams_large_file_in_budget",
        "streams_file.py",
        finished(),
        args=("{file:600}",),
        options=("--memory", "64MiB"),
        quiet=True,
    ),
    # --- disks, files, threads ------------------------------------------------------------------------
    Victim(
        "disk_full",
        "disk_fills.py",
        Expected("disk_full", status=1, where={"line": 8}),
        args=("{tmpfs:4m}",),
        needs=("mounts",),
    ),
    Victim("disk_large_enough", "disk_fills.py", finished(), args=("{tmpfs:80m}",), needs=("mounts",)),
    Victim("too_many_files", "opens_too_many_files.py", Expected("too_many_files", status=1)),
    Victim("no_more_threads", "no_more_threads.py", Expected("threads_exhausted", status=1)),
    Victim("import_missing", "import_missing.py", Expected("import_error", status=1, where={"line": 3})),
    Victim("permission_denied", "permission_denied.py", Expected("permission", SURE, status=1)),
    Victim("server_resets", "stalling_server.py", Expected("network", status=1)),
    Victim("server_recovers", "stalling_server.py", finished(), args=("recovers",), quiet=True),
    # --- signals --------------------------------------------------------------------------------------------
    Victim("segfault", "segfault.py", Expected("segfault", status=139, where={"line": 7})),
    Victim("aborts", "aborts.py", Expected("abort", status=134)),
    Victim("illegal_instruction", "illegal_instruction.py", Expected("illegal_instruction", status=132)),
    Victim("bus_error", "bus_error.py", Expected("bus_error", status=135)),
    Victim("terminated", "killed_by_bystander.py", Expected("terminated", status=143), bystander=signal.SIGTERM),
    Victim(
        "terminated_through_keepfit",
        "killed_by_bystander.py",
        Expected("terminated", status=143),
        bystander=signal.SIGTERM,
        to="keepfit",
    ),
    Victim(
        "interrupted",
        "killed_by_bystander.py",
        Expected("interrupted", status=130),
        bystander=signal.SIGINT,
        to="keepfit",
    ),
    Victim("cpu_time_limit", "cpu_limit.py", Expected("time_limit", status=152)),
    Victim(
        "preempted",
        "preempted.py",
        Expected("preempted", ("likely",), status=143),
        bystander=signal.SIGTERM,
        to="keepfit",
    ),
    Victim(
        "slurm_time_limit",
        "killed_by_bystander.py",
        Expected("time_limit", ("likely",), status=143),
        bystander=signal.SIGTERM,
        to="keepfit",
        environment={"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "{in a minute}"},
    ),
    # --- Python ---------------------------------------------------------------------------------------------
    Victim("exception", "exception.py", Expected("python_error", status=1, where={"line": 5})),
    Victim(
        "exception_in_fit",
        "exception_in_fit.py",
        Expected("shape_mismatch", status=1, where={"line": 10, "phase": "train"}),
        needs=TF,
    ),
    Victim("exits_3", "exits_3.py", Expected("exit_nonzero", status=3)),
    Victim(
        "exception_without_agent",
        "exception.py",
        Expected("python_error", ("likely",), status=1, where={"line": 5}),
        environment={"KEEPFIT_DISABLE": "1"},
    ),
    # --- hangs, and what only looks like one ------------------------------------------------------------
    Victim("deadlock", "deadlock.py", Expected("hang", SURE, status=137), options=("--hang-after", "3")),
    Victim(
        "generator_blocks",
        "generator_blocks.py",
        Expected("hang", SURE, status=137, where={"phase": "train"}),
        options=("--hang-after", "4"),
        needs=TF,
    ),
    Victim(
        "generator_blocks_by_the_default_rule",
        "generator_blocks.py",
        Expected("hang", SURE, status=137, where={"phase": "train", "line": 12}),
        needs=TF,
        slow=True,
    ),
    Victim(
        "throttled_device",
        "reads_device.py",
        Expected("hang", SURE, status=137, because=("io_stall",)),
        args=("{device:64:1}", "64"),
        options=("--hang-after", "4"),
        needs=("throttle",),
    ),
    Victim(
        "slow_device",
        "reads_device.py",
        finished(),
        args=("{device:8:4000000}", "8"),
        needs=("throttle",),
        quiet=True,
    ),
    Victim("slow_first_step", "slow_first_step.py", finished(), needs=TF, quiet=True, slow=True),
    Victim("long_validation", "long_validation.py", finished(), needs=TF, quiet=True),
    Victim("shuffle_refills", "shuffle_refills.py", finished(), needs=TF, quiet=True, slow=True),
    Victim("slow_callback", "slow_callback.py", finished(), needs=TF, quiet=True),
    # --- trees ------------------------------------------------------------------------------------------------
    Victim("zombie_worker", "zombie_worker.py", finished()),
    Victim("leaves_daemon", "leaves_daemon.py", finished(), args=("1.5",)),
)


@contextlib.contextmanager
def setting(victim: Victim, scratch: Path) -> Iterator[tuple[list[str], list[str]]]:
    """(command prefix, the victim's arguments), with everything the setting needs in place."""
    with contextlib.ExitStack() as stack:
        prefix: list[str] = []
        kind, _, number = victim.setting.partition(":")
        if kind == "cgroup":
            prefix = stage.entering(stack.enter_context(stage.memory_cgroup(int(number) * MIB)))
        elif kind == "nested":
            outer = stack.enter_context(stage.memory_cgroup(int(number) * MIB))
            prefix = stage.entering(stack.enter_context(stage.memory_cgroup(4 * int(number) * MIB, below=outer)))
        elif kind == "shm":
            prefix = stage.with_small_shm(number)
        args = []
        for arg in victim.args:
            what, _, value = arg.strip("{}").partition(":")
            if what == "file":
                path = scratch / "large.bin"
                with open(path, "wb") as file:
                    file.truncate(int(value) * MIB)
                arg = str(path)
            elif what == "tmpfs":
                arg = str(stack.enter_context(stage.small_file_system(scratch / "small", value)))
            elif what == "device":
                size, _, rate = value.partition(":")
                device, into = stack.enter_context(stage.throttled_device(scratch, int(size) * MIB, int(rate)))
                prefix, arg = into, device
            args.append(arg)
        yield prefix, args


def perform(victim: Victim, scratch: Path) -> stage.Outcome:
    """Run one victim in its setting, let the bystander do his part, and wait for the end."""
    runs = scratch / "runs"
    with setting(victim, scratch) as (prefix, args):
        command = stage.victim(victim.program, *args)
        in_a_minute = str(int(time.time()) + 60)
        environment = {k: v.replace("{in a minute}", in_a_minute) for k, v in victim.environment.items()}
        # What a death is called does not depend on what comes after it, unless that is memory's affair.
        once = () if "--memory" in victim.options else ("--no-restart",)
        process = stage.start(runs, command, (*once, *victim.options), prefix, **environment)
        seen = b""
        if victim.bystander is not None:
            seen = stage.wait_for_output(process, b"ready")
            target = process.pid if victim.to == "keepfit" else stage.command_pid(runs)
            os.kill(target, victim.bystander)
        return stage.finish(process, runs, seen)


def complaints(victim: Victim, outcome: stage.Outcome) -> list[str]:
    """What is wrong with the verdict: empty when all is right."""
    expected, verdict, wrong = victim.expected, outcome.why(), []
    if verdict["cause"] != expected.cause:
        wrong.append(f"cause {verdict['cause']} ({verdict['confidence']}), expected {expected.cause}")
    elif verdict["confidence"] not in expected.confidence:
        wrong.append(f"confidence {verdict['confidence']}, expected {'/'.join(expected.confidence)}")
    if expected.status is not None and outcome.status != expected.status:
        wrong.append(f"exit status {outcome.status}, expected {expected.status}")
    wrong += [
        f"root {root} is missing from {verdict['because']}"
        for root in expected.because
        if root not in verdict["because"]
    ]
    wrong += [f"root {root} must not be named" for root in expected.never if root in verdict["because"]]
    for name, value in expected.where.items():
        if verdict["where"][name] != value:
            wrong.append(f"where.{name} is {verdict['where'][name]!r}, expected {value!r}")
    if (told := outcome.stderr.count("  help       keepfit explain ")) > 1:
        wrong.append(f"the verdict was told {told} times")
    if victim.quiet:
        wrong += [f"finding: {finding['message']}" for finding in outcome.events("finding")]
    wrong += [f"trouble: {event['what']}" for event in outcome.events("trouble")]
    return wrong
