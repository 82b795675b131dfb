"""Reads address 0 in native code."""

import ctypes


def decode_image():
    ctypes.string_at(0)


decode_image()
