"""Reads a block device past the page cache: reads_device.py DEVICE MIB"""

import mmap
import os
import sys

fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 1 << 20)
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    os.preadv(fd, [buffer], number << 20)
print("read it all", flush=True)
