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


def test_nothing_mounted():
    made, why = fence.build("r1", MIB, Placement(()))
    assert made is None and "no memory cgroup" in why


def test_systemd_is_asked_only_where_it_runs(tmp_path):
    assert fence.by_systemd(MIB, {"PATH": str(tmp_path)}) is None
    program = tmp_path / "systemd-run"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd" / "private").touch()
    prefix = fence.by_systemd(1000 * MIB, {"PATH": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    assert prefix is not None and "--property=MemoryMax=1048576000" in prefix and prefix[-1] == "--"
