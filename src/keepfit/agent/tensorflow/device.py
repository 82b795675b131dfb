"""Where the steps run."""

from .parts import tf


def accelerated():
    """Whether on a device whose memory is not the host's."""
    return bool(tf().config.list_logical_devices("GPU"))


def pools():
    """Whether what a step has used stays taken on the host: with oneDNN's kernels (x86-64, unless they are switched
    off) TensorFlow's allocator of the CPU is a pool that only grows, and no setting of malloc's reaches it. A pool
    counts what it holds; the other allocator does not."""
    try:
        tf().config.experimental.get_memory_info("CPU:0")
        return True
    except Exception:  # ValueError, so far
        return False
