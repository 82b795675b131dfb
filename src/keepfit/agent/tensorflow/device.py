"""Where the steps run."""

from .parts import tf


def accelerated():
    """Whether on a device whose memory is not the host's."""
    return bool(tf().config.list_logical_devices("GPU"))
