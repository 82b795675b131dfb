"""A worker process eats until the kernel kills it; the parent notices and gives up."""

import os
import sys

child = os.fork()
if child == 0:
    held = []
    while True:
        block = bytearray(1 << 20)
        block[::4096] = b"x" * 256
        held.append(block)
_, status = os.waitpid(child, 0)
sys.exit(f"the data worker is gone (wait status {status})")
