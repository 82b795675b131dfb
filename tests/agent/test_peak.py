"""What is told of malloc: which of its settings nobody has chosen."""

from __future__ import annotations

import platform

import pytest

from keepfit.agent.peak import unchosen

ARENAS, BLOCKS = "MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc's malloc")
@pytest.mark.parametrize(
    ("environment", "left"),
    [
        ({}, [ARENAS, BLOCKS]),
        ({ARENAS: "4"}, [BLOCKS]),
        ({BLOCKS: "131072"}, [ARENAS]),
        ({ARENAS: "1", BLOCKS: "1048576"}, []),
        ({"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1048576"}, [ARENAS]),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=1048576"}, []),
        ({"LD_PRELOAD": "libtcmalloc.so"}, []),  # another malloc, whose settings these are not
    ],
)
def test_settings_of_malloc_that_nobody_has_chosen(monkeypatch, environment, left):
    for name in (ARENAS, BLOCKS, "GLIBC_TUNABLES", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert unchosen() == left
