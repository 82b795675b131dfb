"""Writes into a shared mapping that is larger than /dev/shm: SIGBUS."""

import mmap
import os

size = os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize * 2
fd = os.open("/dev/shm/keepfit-victim", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, size)
with mmap.mmap(fd, size) as memory:
    for offset in range(0, size, 4096):
        memory[offset] = 1
