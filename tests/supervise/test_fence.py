"""The fence on a made-up cgroup v2 tree: what is written where, and what is refused."""

from __future__ import annotations

import os

import pytest

from keepfit.machine.cgroup import Level, Placement
from keepfit.supervise import fence

MIB = 1 << 20


class Kernel:
    """A cgroup v2 directory that fills new children with the files the kernel would."""

    def __init__(self, root, monkeypatch, subtree="", members=""):
        self.root = root
        (root / "cgroup.subtree_control").write_text(subtree)
        (root / "cgroup.procs").write_text(members)
        plain_mkdir = os.mkdir

        def mkdir(path, *args):
            plain_mkdir(path, *args)
            for name in ("memory.max", "memory.high", "memory.swap.max", "memory.events", "cgroup.procs"):
                open(os.path.join(path, name), "w").close()

        monkeypatch.setattr(os, "mkdir", mkdir)

    def placement(self):
        return Placement((Level(str(self.root), "/job", 2),))


def test_v2_limits_are_written_below_our_own_cgroup(tmp_path, monkeypatch):
    kernel = Kernel(tmp_path, monkeypatch, subtree="cpu memory")
    made, why = fence.build("r1", 1000 * MIB, kernel.placement())
    assert made is not None and why == "" and made.how == "cgroup-v2"
    assert made.level.path == "/job/keepfit-r1"
    directory = tmp_path / "keepfit-r1"
    assert (directory / "memory.max").read_text() == str(1000 * MIB)
    assert (directory / "memory.high").read_text() == str(fence.held_at(1000 * MIB))
    assert (directory / "memory.swap.max").read_text() == "0"


def test_v2_the_controller_is_switched_on_where_it_may_be(tmp_path, monkeypatch):
    kernel = Kernel(tmp_path, monkeypatch, subtree="cpu")
    made, _ = fence.build("r1", 1000 * MIB, kernel.placement())
    assert made is not None and (tmp_path / "cgroup.subtree_control").read_text() == "+memory"


@pytest.mark.parametrize("alone", [True, False])
def test_v2_no_internal_processes(tmp_path, monkeypatch, alone):
    """EBUSY: processes stand in the cgroup. Ours alone step aside; others are never moved."""
    members = f"{os.getpid()}\n" if alone else f"{os.getpid()}\n1\n"
    kernel = Kernel(tmp_path, monkeypatch, members=members)
    plain = fence._write

    def busy_until_empty(path, text):
        if path.endswith("subtree_control") and not (tmp_path / "keepfit-supervisor").exists():
            raise OSError(16, "Device or resource busy")
        plain(path, text)

    monkeypatch.setattr(fence, "_write", busy_until_empty)
    made, why = fence.build("r1", 1000 * MIB, kernel.placement())
    if alone:
        assert made is not None
        assert (tmp_path / "keepfit-supervisor" / "cgroup.procs").read_text() == "0"
    else:
        assert made is None and "other processes live in it" in why


def test_page_cache_at_the_line_is_no_danger(tmp_path, monkeypatch):
    kernel = Kernel(tmp_path, monkeypatch, subtree="memory")
    made, _ = fence.build("r1", 1000 * MIB, kernel.placement())
    assert made is not None
    stat = tmp_path / "keepfit-r1" / "memory.stat"
    stat.write_text(f"anon {100 * MIB}\nfile {890 * MIB}\nshmem 0\nkernel 0\n")
    assert not made.reached()
    stat.write_text(f"anon {990 * MIB}\nfile 0\nshmem 0\nkernel 0\n")
    assert made.reached()


def test_v1_whoever_stood_at_a_line_that_was_left_does_not_stand_at_the_wider_one(tmp_path):
    """`under_oom` falls only when the process has run again, which takes its time on a busy machine."""
    made = fence.FenceV1(Level(str(tmp_path), "/job", 1), 100 * MIB)
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 1\nunder_oom 1\noom_kill 0\n")
    stat = tmp_path / "memory.stat"
    stat.write_text(f"total_rss {99 * MIB}\n")
    assert made.reached()
    made.widen(4096 * MIB)
    assert not made.reached()
    stat.write_text(f"total_rss {4095 * MIB}\n")
    assert made.reached()


def test_nothing_mounted():
    made, why = fence.build("r1", MIB, Placement(()))
    assert made is None and "no memory cgroup" in why


def test_systemd_is_asked_only_where_it_answers(tmp_path):
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert fence.by_systemd("r1", MIB, {**environment, "XDG_RUNTIME_DIR": ""}) is None
    program = tmp_path / "systemd-run"
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd" / "private").touch()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    assert fence.by_systemd("r1", MIB, environment) is None, "it is there, but does not work"
    program.write_text("#!/bin/sh\nexit 0\n")
    prefix = fence.by_systemd("r1", 1000 * MIB, environment)
    assert prefix is not None and "--property=MemoryMax=1048576000" in prefix and prefix[-1] == "--"
    assert "--unit=keepfit-r1.scope" in prefix


@pytest.mark.parametrize(("path", "ours"), [("/user/session-3.scope", False), ("/user/keepfit-r1.scope", True)])
def test_only_the_scope_made_for_this_run_is_adopted(tmp_path, monkeypatch, path, ours):
    """Every login session is a scope too: freezing or ending that one would take the user's shell."""
    (tmp_path / "memory.events").write_text("high 0\n")
    placement = Placement((Level(str(tmp_path), path, 2),))
    monkeypatch.setattr(fence.cgroup, "placement", lambda pid: placement)
    assert (fence.adopt(1, "r1", MIB) is not None) is ours
