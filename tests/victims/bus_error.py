"""A mapped data file is truncated by somebody while it is read."""

import mmap
import os
import tempfile

with tempfile.TemporaryFile() as file:
    file.truncate(1 << 20)
    memory = mmap.mmap(file.fileno(), 1 << 20)
    os.ftruncate(file.fileno(), 0)
    print(memory[5000])
