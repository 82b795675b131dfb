"""Raw /proc: parsers that never trip over names, and a real tree followed through forks and daemons."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time

from hypothesis import given
from hypothesis import strategies as st

from keepfit.machine import bounded, disk, kernel_log, pidfd, pressure, procfs
from keepfit.machine.tree import ProcessTree

from .. import stage

REST = b" S 1 2 3 0 -1 0 10 0 5 0 150 50 0 0 20 0 7 0 4242 0 0"


@given(st.binary(max_size=32).filter(lambda name: b"\0" not in name))
def test_stat_survives_any_name(name):
    parsed = procfs.parse_stat(b"77 (" + name + b")" + REST)
    assert (parsed.pid, parsed.state, parsed.threads, parsed.start) == (77, "S", 7, 4242)
    assert parsed.cpu == 200 / procfs.TICKS and (parsed.minor_faults, parsed.major_faults) == (10, 5)


@given(st.binary(max_size=400))
def test_fields_never_raise(text):
    procfs.fields(text)


def test_fields_scale_kilobytes():
    assert procfs.fields(b"VmRSS:\t   12 kB\nThreads:\t3\nName:\tx y\n") == {"VmRSS": 12288, "Threads": 3}


@given(st.binary(max_size=300))
def test_pressure_never_raises(text):
    pressure.parse_psi(text)


def test_pressure():
    text = b"some avg10=1.50 avg60=0.1 avg300=0 total=5\nfull avg10=0.75 avg60=0 avg300=0 total=1\n"
    assert pressure.parse_psi(text) == pressure.Pressure(1.5, 0.75)


def test_pressure_switched_off(tmp_path):
    assert pressure.read("memory", proc=str(tmp_path)) is None


def test_network_errors(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "dev").write_text(
        "Inter-|   Receive | Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n"
        "  eth0: 100 2 3 4 0 0 0 0 200 5 6 7 0 0 0 0\n"
    )
    assert pressure.network_errors(str(tmp_path)) == {"eth0": 3 + 4 + 6 + 7}


def test_swap_traffic(tmp_path):
    (tmp_path / "vmstat").write_text("pgfault 1\npswpin 10\npswpout 3\n")
    assert pressure.swapped_in(str(tmp_path)) == 10 * procfs.PAGE


def test_identity_is_pid_start_and_boot():
    own = procfs.stat(os.getpid())
    assert own is not None
    assert procfs.same_process(own.pid, own.start, procfs.boot_id())
    assert not procfs.same_process(own.pid, own.start + 1, procfs.boot_id())
    assert not procfs.same_process(own.pid, own.start, "another boot")


def test_catches_knows_handlers():
    before = signal.signal(signal.SIGUSR2, lambda *args: None)
    try:
        assert procfs.catches(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert not procfs.catches(os.getpid(), signal.SIGRTMAX)


def test_a_tree_through_forks_and_a_daemon():
    code = (
        "import os, sys, time\n"
        "held = bytearray(50 << 20); held[::4096] = b'x' * len(held[::4096])\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(60)\n"
        "    sys.stdin.readline(); os._exit(0)\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    daemon = None
    try:
        stage.wait_for_output(process, b"ready")
        tree = ProcessTree(process.pid)

        def look():
            tree.measure(time.monotonic())
            tree.discover()
            tree.count(time.monotonic())
            return tree.reading()

        stage.wait_until(lambda: look() and len(tree.pids) == 3, what="the daemon and its parent")
        process.stdin.write(b"end\n")
        process.stdin.flush()
        stage.wait_until(lambda: look() and len(tree.deaths) == 1, what="the death of the daemon's parent")
        reading = look()
        assert reading.processes == 2, "the daemon left its parent but stays in the tree"
        assert reading.anon > 100 << 20, "two processes hold the pages"
        assert reading.inherited > 40 << 20, "and the second inherited them"
        daemon = next(pid for pid in tree.pids if pid != process.pid)
        tree.detail()
        assert tree.reading().open_files > 0
        tree.close()
    finally:
        process.kill()
        process.wait()
        if daemon:
            os.kill(daemon, signal.SIGKILL)


def test_a_newcomer_is_found_where_the_kernel_has_given_a_pid_away():
    code = "import subprocess, sys; input(); subprocess.run(['sleep', '60'])"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    tree = ProcessTree(process.pid)
    try:
        tree.discover_if_any()
        assert tree.pids == [process.pid]
        process.stdin.write(b"go on\n")
        process.stdin.flush()
        stage.wait_until(lambda: tree.discover_if_any() or len(tree.pids) == 2, what="the newcomer")
    finally:
        for pid in tree.pids:
            os.kill(pid, signal.SIGKILL)
        process.wait()
        tree.close()


def test_totals_never_run_backwards():
    code = "import subprocess, sys\nfor _ in range(3): subprocess.run([sys.executable, '-c', 'sum(range(3000000))'])\n"
    process = subprocess.Popen([sys.executable, "-c", code])
    tree, seen = ProcessTree(process.pid), []
    while process.poll() is None:
        tree.measure(time.monotonic())
        tree.discover()
        tree.count(time.monotonic())
        seen.append(tree.reading().cpu)
    assert all(b >= a - 1e-6 for a, b in itertools.pairwise(seen)) and seen[-1] > 0


def test_exit_of_a_process_that_is_not_ours():
    """Through init: a grandchild whose parent is gone."""
    script = "(sh -c 'sleep 0.7; exit 9' & echo $!)"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    fd = pidfd.open_pid(pid)
    assert fd is not None
    stage.wait_until(lambda: __import__("select").select([fd], [], [], 0)[0], what="the end of the process")
    found = pidfd.exit_soon(fd, pid)
    os.close(fd)
    release = tuple(int(word) for word in os.uname().release.split(".")[:2])
    if found is None and release < (6, 15):
        import pytest

        pytest.skip("this kernel does not tell the exit of others (before 6.15)")
    assert found is not None and found.status == 9


def test_outside_calls_are_bounded():
    began = time.monotonic()
    assert bounded.call(lambda: time.sleep(60), 0.1) is None
    assert bounded.output(["sleep", "60"], 0.1) is None
    assert bounded.output(["no-such-program"], 1) is None
    assert time.monotonic() - began < 30
    assert bounded.output(["echo", "hi"], 5) == "hi\n"


def test_free_space_leaves_out_what_does_not_answer(tmp_path):
    (only,) = disk.free_space({"cwd": str(tmp_path), "gone": str(tmp_path / "gone")})
    assert only.role == "cwd" and 0 < only.free <= only.total


OOM_LINES = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a/b,"
    "task_memcg=/a/b/c,task=python3,pid=4758,uid=0",
    "Memory cgroup out of memory: Killed process 4758 (python3) total-vm:1kB, anon-rss:1kB",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=user.slice,mems_allowed=0,global_oom,"
    "task_memcg=/user,task=my task,with,commas,pid=99,uid=1000",
    "Out of memory: Killed process 99 (my task,with,commas) total-vm:1kB",
    "Out of memory: Killed process 123 (old) total-vm:1kB",
)


def test_oom_kills_are_read_with_level_and_victim():
    first, second, third = kernel_log.oom_kills(OOM_LINES)
    assert (first.pid, first.constraint, first.limit_path, first.task_path) == (
        4758,
        "CONSTRAINT_MEMCG",
        "/a/b",
        "/a/b/c",
    )
    assert (second.pid, second.name, second.constraint) == (99, "my task,with,commas", "CONSTRAINT_NONE")
    assert (third.pid, third.constraint) == (123, "CONSTRAINT_NONE")


@given(st.lists(st.text(max_size=200), max_size=5))
def test_kernel_lines_never_raise(lines):
    kernel_log.oom_kills(tuple(lines))


def test_a_kernel_log_that_cannot_be_read_says_why(tmp_path):
    log = kernel_log.KernelLog(str(tmp_path / "none"))
    assert log.why_not == "No such file or directory" and log.new_lines() == []


def test_a_zombie_does_not_spoil_an_exact_measurement():
    """A worker that has ended but was not waited for has no memory to tell of; the rest still counts."""
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0: sys.stdin.readline(); os._exit(0)\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        stage.wait_for_output(process, b"ready")
        tree = ProcessTree(process.pid)
        (child,) = [pid for pid in tree.pids if pid != process.pid]
        process.stdin.write(b"end\n")
        process.stdin.flush()
        stage.wait_until(lambda: (procfs.stat(child) or procfs.stat(1)).state == "Z", what="the zombie")  # type: ignore[union-attr]
        exact = tree.shared_once()
        assert exact is not None and exact > 1 << 20
    finally:
        process.kill()
        process.wait()
