"""Writes a checkpoint into a directory that runs full: disk_fills.py DIR"""

import os
import sys

with open(os.path.join(sys.argv[1], "checkpoint.bin"), "wb") as file:
    for _ in range(64):
        file.write(os.urandom(1 << 20))
