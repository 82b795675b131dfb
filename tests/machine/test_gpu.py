"""NVML, from something that answers like it (this machine has no GPU), and its absence."""

from __future__ import annotations

from types import SimpleNamespace

from keepfit.machine import gpu


class FakeNvml:
    def nvmlDeviceGetCount(self):
        return 1

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(used=10, total=100, free=90)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=7, usedGpuMemory=4), SimpleNamespace(pid=8, usedGpuMemory=6)]

    def nvmlDeviceGetName(self, handle):
        return b"A Card"


def test_devices_and_processes():
    (device,) = gpu.devices(FakeNvml(), pids=[8])
    assert device["name"] == "A Card" and (device["used_bytes"], device["total_bytes"]) == (10, 100)
    assert device["processes"] == [{"pid": 8, "bytes": 6}]


def test_no_driver_is_no_error(tmp_path):
    assert not gpu.driver_loaded(str(tmp_path))
    if not gpu.driver_loaded():
        probe = gpu.GpuProbe()
        assert probe.pid is None and probe.poll(0.0) is None and gpu.snapshot() is None
        probe.close()
