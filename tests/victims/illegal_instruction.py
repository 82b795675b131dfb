"""Executes bytes that are no instruction of any processor."""

import ctypes
import mmap
import platform

code = {"x86_64": b"\x0f\x0b"}.get(platform.machine(), b"\x00\x00\x00\x00")
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(code)
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
