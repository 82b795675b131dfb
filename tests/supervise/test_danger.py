"""The danger line without a cgroup of our own, and the arithmetic behind it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from keepfit.machine.tree import ProcessTree, TreeReading
from keepfit.supervise import danger

from .. import stage

GIB = 1 << 30


def without_own_cgroup() -> list[str]:
    """A prefix in whose view the cgroup tree is read-only, as for an ordinary user in a container."""
    return [
        "unshare",
        "-m",
        "sh",
        "-c",
        "mount -o remount,ro,bind /sys/fs/cgroup/memory 2>/dev/null || mount -o remount,ro,bind /sys/fs/cgroup; "
        'exec "$@"',
        "sh",
    ]


def cgroups_named(run: str) -> list[str]:
    own = stage.own_memory_cgroup()
    assert own is not None
    return [path for path, _, _ in os.walk(own) if run in path]


def test_a_fast_toucher_is_stopped_at_the_line_by_sampling(runs, needs):
    needs("mounts")
    outcome = stage.run(runs, stage.victim("touches_fast.py", "4000"), ["--memory", "600MiB"], without_own_cgroup())
    verdict = outcome.why()
    assert (outcome.status, verdict["cause"], verdict["confidence"]) == (137, "memory_budget", "certain")
    assert any("held by sampling" in word for word in verdict["lacked"])
    assert outcome.events("danger")[0]["how"] == "sampled"


def test_shared_pages_count_once_by_sampling(runs, needs):
    needs("mounts")
    outcome = stage.run(runs, stage.victim("shares_with_workers.py"), ["--memory", "2GiB"], without_own_cgroup())
    assert outcome.status == 0 and outcome.why()["cause"] == "finished", outcome.stderr


def test_touching_most_of_the_budget_is_fine_by_sampling(runs, needs):
    needs("mounts")
    outcome = stage.run(runs, stage.victim("eats.py", "380", "1"), ["--memory", "400MiB"], without_own_cgroup())
    assert outcome.status == 0, outcome.stderr


def test_the_fence_leaves_nothing_behind(runs, needs):
    needs("cgroup")
    outcome = stage.run(runs, stage.victim("eats.py", "300"), ["--memory", "100MiB"])
    (scene,) = outcome.events("scene")
    assert scene["fence"].endswith(outcome.directory.name) and cgroups_named(outcome.directory.name) == []


@pytest.mark.parametrize("budget", ["70000", "64K"])
def test_a_budget_too_small_for_anything_is_refused_at_once(runs, needs, budget):
    needs("cgroup")
    outcome = stage.run(runs, ["true"], ["--memory", budget])
    assert outcome.status == 64 and "budget" in outcome.stderr, outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) == 1


def test_guard_none_leaves_the_budget_to_the_user_but_records(runs):
    outcome = stage.run(runs, stage.victim("healthy.py"), ["--guard", "none"])
    assert outcome.status == 0


class FakeTree:
    """A tree of two that costs nothing to measure."""

    pids = ()

    def __init__(self, exact: int) -> None:
        self.exact = exact
        self.asked = 0

    def shared_once(self) -> int:
        self.asked += 1
        return self.exact


def test_far_from_the_line_nothing_expensive_is_asked():
    tree = FakeTree(GIB)
    line = danger.SampledLine(4 * GIB, "test", tree)  # type: ignore[arg-type]
    for tick in range(100):
        assert line.check(tick * 0.05, TreeReading(processes=3, anon=2 * GIB)) is None
    assert tree.asked == 0 and line.interval() == danger.CALM


def test_forked_workers_near_the_line_are_measured_exactly_but_seldom():
    tree = FakeTree(GIB)
    line = danger.SampledLine(2 * GIB, "test", tree)  # type: ignore[arg-type]
    for tick in range(20):
        assert line.check(tick * 0.001, TreeReading(processes=9, anon=9 * GIB, inherited=8 * GIB)) is None
    assert tree.asked == 1


def test_growth_that_would_cross_the_line_before_the_next_look_is_frozen_and_measured():
    tree = FakeTree(int(1.99 * GIB))
    line = danger.SampledLine(2 * GIB, "test", tree)  # type: ignore[arg-type]
    assert line.check(0.00, TreeReading(processes=1, anon=int(1.90 * GIB))) is None
    assert line.check(0.01, TreeReading(processes=1, anon=int(1.97 * GIB))) is None  # a false alarm: it goes on
    assert tree.asked == 1
    tree.exact = 2 * GIB
    found = line.check(0.02, TreeReading(processes=1, anon=int(1.999 * GIB)))
    assert found is not None and found.use_bytes == 2 * GIB


def test_the_host_line_wants_several_samples_no_swap_and_our_own_guilt():
    tree = FakeTree(0)
    full = {"MemTotal": 16 * GIB, "MemAvailable": GIB // 16, "SwapTotal": 0, "SwapFree": 0}
    ours = TreeReading(anon=12 * GIB)
    line = danger.HostLine(tree, fresh=lambda: full)  # type: ignore[arg-type]
    assert [line.check(t, ours, full) is None for t in (0.0, 0.05)] == [True, True]
    assert line.check(0.1, ours, full) is not None
    line = danger.HostLine(tree, fresh=lambda: {**full, "MemAvailable": 4 * GIB})  # type: ignore[arg-type]
    assert all(line.check(t, ours, full) is None for t in range(9)), "a dip that is over when looked at again"
    line = danger.HostLine(tree, fresh=lambda: full)  # type: ignore[arg-type]
    assert all(line.check(t, TreeReading(anon=GIB), full) is None for t in range(9)), "others filled the machine"
    swapping = {**full, "SwapTotal": GIB, "SwapFree": GIB // 2}
    line = danger.HostLine(tree, fresh=lambda: swapping)  # type: ignore[arg-type]
    assert all(line.check(t, ours, swapping) is None for t in range(9)), "there is swap left"


def test_real_forks_share(needs):
    """PSS of a real tree: a forked child that only reads adds next to nothing."""
    code = (
        "import os, sys, time\n"
        "data = bytearray(200 << 20)\n"
        "data[::4096] = b'x' * len(data[::4096])\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0: time.sleep(30); os._exit(0)\n"
        "print('ready', flush=True)\n"
        "time.sleep(30)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        stage.wait_for_output(process, b"ready")
        tree = ProcessTree(process.pid)
        reading = tree.reading()
        exact = tree.shared_once()
        assert reading.processes == 4 and reading.anon > 700 << 20
        assert exact is not None and 200 << 20 < exact < 320 << 20
    finally:
        import signal

        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
