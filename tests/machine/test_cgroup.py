"""cgroup trees from fixtures (v1, v2, hybrid, containers), and the real one of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepfit.machine import cgroup, limits

from .. import stage

GIB = 1 << 30


class Tree:
    """A made-up machine: /proc/self and cgroup directories below a temporary root."""

    def __init__(self, root: Path, membership: str, mounts: str) -> None:
        self.root = root
        own = root / "proc" / "self"
        own.mkdir(parents=True)
        (own / "cgroup").write_text(membership)
        (own / "mountinfo").write_text(mounts)
        (root / "proc" / "meminfo").write_text("MemTotal: 67108864 kB\nMemAvailable: 33554432 kB\n")

    def level(self, directory: str, **files: str) -> None:
        path = self.root / directory.lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (path / name.replace("__", ".")).write_text(text)

    def placement(self) -> cgroup.Placement:
        return cgroup.placement("self", proc=str(self.root / "proc"), root=str(self.root))

    def effective(self, **more):
        return limits.effective(self.placement(), more.pop("environment", {}), proc=str(self.root / "proc"), **more)


V2_MOUNT = "30 1 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1_MOUNT = (
    "30 1 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "31 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)


def v2_level(limit: str, anon: int = 0, high: str = "max", oom_kill: int = 0) -> dict[str, str]:
    return {
        "memory__max": limit,
        "memory__high": high,
        "memory__current": str(anon + GIB),
        "memory__peak": str(anon + 2 * GIB),
        "memory__stat": f"anon {anon}\nfile {GIB}\nshmem 0\nkernel 1048576\nslab_reclaimable 524288\n",
        "memory__events": f"low 0\nhigh 3\nmax 7\noom 1\noom_kill {oom_kill}\n",
        "memory__events__local": "low 0\nhigh 3\nmax 5\noom 1\noom_kill 0\n",
    }


def test_v2_the_smallest_level_binds_and_is_named(tmp_path):
    tree = Tree(tmp_path, "0::/slice/job/step\n", V2_MOUNT)
    tree.level("/sys/fs/cgroup", memory__stat="anon 1\n")
    tree.level("/sys/fs/cgroup/slice", **v2_level("max"))
    tree.level("/sys/fs/cgroup/slice/job", **v2_level(str(4 * GIB), anon=GIB))
    tree.level("/sys/fs/cgroup/slice/job/step", **v2_level(str(16 * GIB), anon=GIB // 2))
    assert [level.path for level in tree.placement().levels] == ["/slice/job/step", "/slice/job", "/slice", "/"]
    limit = tree.effective()
    assert limit is not None and limit.path == "/slice/job" and limit.kind == "cgroup"
    assert limit.bytes == 4 * GIB - (GIB + 1048576 - 524288), "less what others use at that level"


def test_v2_page_cache_is_not_use(tmp_path):
    tree = Tree(tmp_path, "0::/job\n", V2_MOUNT)
    tree.level("/sys/fs/cgroup/job", **v2_level(str(2 * GIB), anon=GIB))
    own = tree.placement().own
    assert own is not None and own.use == GIB + 1048576 - 524288 and own.total_use == 2 * GIB


def test_v2_of_an_older_kernel(tmp_path):
    tree = Tree(tmp_path, "0::/job\n", V2_MOUNT)
    old = "anon 1000\nshmem 24\nkernel_stack 100\nslab_unreclaimable 76\nslab_reclaimable 500000000\n"
    tree.level("/sys/fs/cgroup/job", **{**v2_level(str(GIB)), "memory__stat": old})
    own = tree.placement().own
    assert own is not None and own.use == 1200


def test_v2_high_counts_as_a_limit(tmp_path):
    tree = Tree(tmp_path, "0::/job\n", V2_MOUNT)
    tree.level("/sys/fs/cgroup/job", **v2_level(str(8 * GIB), high=str(3 * GIB)))
    own = tree.placement().own
    assert own is not None and own.limit == 3 * GIB


def test_v2_counters(tmp_path):
    tree = Tree(tmp_path, "0::/job\n", V2_MOUNT)
    tree.level("/sys/fs/cgroup/job", **v2_level(str(GIB), oom_kill=2))
    own = tree.placement().own
    assert own is not None
    counters = own.counters()
    assert (counters.oom_kill, counters.failures, counters.limit) == (2, 5, GIB)


def test_v1_levels_limits_and_counters(tmp_path):
    tree = Tree(tmp_path, "4:memory:/docker/abc\n3:cpu:/x\n0::/\n", V1_MOUNT)
    unlimited = {"memory__limit_in_bytes": "9223372036854771712", "memory__stat": "total_rss 5\n"}
    tree.level("/sys/fs/cgroup/memory", **unlimited)
    tree.level("/sys/fs/cgroup/memory/docker", **unlimited)
    tree.level(
        "/sys/fs/cgroup/memory/docker/abc",
        memory__limit_in_bytes=str(GIB),
        memory__usage_in_bytes=str(GIB),
        memory__max_usage_in_bytes=str(GIB),
        memory__failcnt="12",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        memory__stat=f"rss 1\ntotal_rss {GIB // 4}\ntotal_shmem 4096\ntotal_cache {GIB // 2}\n",
        memory__kmem__usage_in_bytes="8192",
    )
    placement = tree.placement()
    assert [level.path for level in placement.levels] == ["/docker/abc", "/docker", "/"]
    own = placement.own
    assert own is not None and own.version == 1
    assert own.use == GIB // 4 + 4096 + 8192
    assert (own.counters().oom_kill, own.counters().failures) == (3, 12)
    assert placement.levels[1].limit is None
    limit = tree.effective(own_use=GIB // 4 + 4096 + 8192)
    assert limit is not None and limit.bytes == GIB and limit.path == "/docker/abc"


def test_hybrid_memory_in_v1(tmp_path):
    mounts = V1_MOUNT + "43 1 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    tree = Tree(tmp_path, "4:memory:/job\n0::/user.slice\n", mounts)
    tree.level("/sys/fs/cgroup/memory/job", memory__limit_in_bytes=str(GIB), memory__stat="total_rss 0\n")
    tree.level("/sys/fs/cgroup/unified/user.slice")
    own = tree.placement().own
    assert own is not None and (own.version, own.limit) == (1, GIB)


def test_a_container_sees_only_its_own_part(tmp_path):
    """The mount's root is the container's cgroup: the path in /proc/self/cgroup is the host's."""
    mounts = "31 1 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
    tree = Tree(tmp_path, "4:memory:/docker/abc\n", mounts)
    tree.level("/sys/fs/cgroup/memory", memory__limit_in_bytes=str(GIB), memory__stat="total_rss 0\n")
    placement = tree.placement()
    assert [level.limit for level in placement.levels] == [GIB]


def test_nothing_mounted(tmp_path):
    tree = Tree(tmp_path, "0::/\n", "30 1 0:25 / /proc rw - proc proc rw\n")
    assert tree.placement().levels == ()
    limit = tree.effective()
    assert limit is not None and limit.kind == "host"


def test_the_host_binds_when_nothing_else_does(tmp_path):
    tree = Tree(tmp_path, "0::/\n", V2_MOUNT)
    tree.level("/sys/fs/cgroup", memory__stat="anon 1\n")
    limit = tree.effective()
    assert limit is not None and limit.source == "host memory that can still be had"
    assert limit.bytes == 32 * GIB - int(64 * GIB * limits.HOST_RESERVE_SHARE)


def test_a_budget_binds_when_it_is_the_smallest(tmp_path):
    tree = Tree(tmp_path, "0::/\n", V2_MOUNT)
    limit = tree.effective(budget=GIB)
    assert limit is not None and (limit.bytes, limit.kind) == (GIB, "budget")


@pytest.mark.parametrize(
    ("environment", "bytes_", "words"),
    [
        ({"SLURM_MEM_PER_NODE": "4096"}, 4 * GIB, "SLURM_MEM_PER_NODE"),
        ({"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "3"}, 3 * GIB, "x 3"),
        ({"SLURM_MEM_PER_GPU": "2048", "SLURM_GPUS_ON_NODE": "2"}, 4 * GIB, "MEM_PER_GPU"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "MEMORY_LIMIT": str(2 * GIB)}, 2 * GIB, "Kubernetes"),
    ],
)
def test_promises_of_schedulers(environment, bytes_, words):
    (limit,) = limits.promises(environment)
    assert (limit.bytes, limit.kind) == (bytes_, "scheduler") and words in limit.source


def test_promises_that_promise_nothing():
    assert list(limits.promises({"SLURM_MEM_PER_NODE": "0"})) == [], "0 means the whole node"
    assert list(limits.promises({"MEMORY_LIMIT": "123"})) == [], "not in a pod: somebody else's variable"
    assert list(limits.promises({"SLURM_MEM_PER_NODE": "lots"})) == []
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "MEMORY_LIMIT": "4096"}
    assert list(limits.promises(pod)) == [], "MiB, not bytes"


def test_kubernetes_downward_file(tmp_path):
    (tmp_path / "mem_limit").write_text(str(3 * GIB))
    (limit,) = limits.promises({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, podinfo=str(tmp_path))
    assert limit.bytes == 3 * GIB


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("3GiB", 3 * GIB),
        ("512M", 512 << 20),
        ("1.5g", 3 * GIB // 2),
        ("1000", 1000),
        ("2 GB", 2 * GIB),
        ("1k", 1024),
        ("2Gi", 2 * GIB),
    ],
)
def test_sizes(text, count):
    assert limits.parse_size(text) == count


@pytest.mark.parametrize("text", ["", "abc", "-1G", "0", "3XB", "1e9", "GiB", "0.1", "9" * 400, "١GiB" * 2])
def test_bad_sizes_say_what_was_received(text):
    with pytest.raises(ValueError, match="expected"):
        limits.parse_size(text)


def test_a_real_nested_cgroup_binds_by_name(needs):
    needs("cgroup")
    import subprocess
    import sys

    with stage.memory_cgroup(512 << 20) as outer, stage.memory_cgroup(GIB, below=outer) as inner:
        code = (
            "from keepfit.machine import cgroup, limits\n"
            "limit = limits.effective(cgroup.placement(), {})\n"
            "print(limit.path, limit.bytes)\n"
        )
        done = subprocess.run(
            [*stage.entering(inner), sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        path, count = done.stdout.split()
        assert path.endswith(Path(outer).name) and int(count) <= 512 << 20
