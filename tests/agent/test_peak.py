"""What is told of malloc: what was chosen of its settings."""

from __future__ import annotations

import platform

import pytest

from keepfit.agent.peak import malloc_settings

ARENAS, BLOCKS = "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc")
@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, {ARENAS: None, BLOCKS: None}),
        ({ARENAS: "4"}, {ARENAS: "4", BLOCKS: None}),
        ({ARENAS: "1", BLOCKS: "1048576"}, {ARENAS: "1", BLOCKS: "1048576"}),
        ({"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}, {ARENAS: None, BLOCKS: "131072"}),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.perturb"}, {ARENAS: "1", BLOCKS: None}),
        ({"LD_PRELOAD": "libtcmalloc.so"}, {}),  # another malloc, whose settings these are not
    ],
)
def test_settings_of_malloc(monkeypatch, environment, told):
    for name in (ARENAS, BLOCKS, "GLIBC_TUNABLES", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert malloc_settings() == told
