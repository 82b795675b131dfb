"""The catalogue keeps its promises: every code has a page, every contract cause of this part a detector."""

from __future__ import annotations

import re

from keepfit.conditions.catalogue import all_conditions, built_in

# The process-level causes of the public contract.
CAUSES = {
    "host_oom", "cgroup_oom", "memory_budget", "allocation_failed", "shm_full",
    "illegal_instruction", "disk_full", "too_many_files", "threads_exhausted", "permission", "network", "import_error",
    "segfault", "abort", "bus_error", "hang", "preempted", "time_limit", "terminated", "killed_unknown", "interrupted",
    "python_error", "exit_nonzero", "finished", "unknown",
}  # fmt: skip
ROOTS = {
    "batch_too_large", "data_preloaded", "shuffle_buffer", "cache_in_ram", "prefetch_autotune", "leak_tensors_held",
    "leak_graph_growth", "leak_gradient_registry", "leak_generators", "leak_workers", "retracing", "fragmentation",
    "spike", "limit_unknown_to_user", "other_process", "worker_died", "learning_rate_too_high", "unscaled_input",
    "mixed_precision_overflow", "swap_thrash", "io_stall",
}  # fmt: skip


def test_every_cause_has_a_detector():
    assert {c.cause for c in built_in() if c.autopsy} >= CAUSES


def test_roots_are_the_contracts():
    assert {c.root for c in built_in() if c.root} <= ROOTS
    assert all(c.because for c in built_in() if c.root)


def test_codes_and_names_are_unique_and_shaped():
    codes = [c.code for c in built_in()]
    assert len(set(codes)) == len(codes) and all(re.fullmatch(r"KF\d{3}", code) for code in codes)
    names = [c.name for c in built_in()]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


def test_every_condition_has_its_page():
    for condition in built_in():
        for heading in ("## What happened", "## How keepfit knows", "## What to do"):
            assert heading in condition.doc, f"{condition.code} lacks {heading!r}"
        assert condition.doc.splitlines()[0].endswith("."), condition.code
        assert condition.remedies or condition.cause == "finished"


def test_one_condition_one_file():
    from pathlib import Path

    import keepfit.conditions as room

    folder = Path(room.__file__).parent
    for family in ("memory", "process", "environment", "gpu"):
        for path in (folder / family).glob("*.py"):
            assert path.read_text().count("CONDITION = Condition(") <= 1


def test_ours_are_among_all():
    assert set(built_in()) <= set(all_conditions())
