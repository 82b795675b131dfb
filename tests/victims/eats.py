"""Eats memory, a MiB at a time: eats.py MIB [seconds to stay]"""

import sys
import time

held = []
for _ in range(int(sys.argv[1])):
    block = bytearray(1 << 20)
    block[::4096] = b"x" * 256
    held.append(block)
print("ready", flush=True)
time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
