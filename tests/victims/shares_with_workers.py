"""Eight forked workers share 1 GiB of their parent's memory and only read it."""

import os
import time

data = bytearray(1 << 30)
for offset in range(0, len(data), 4096):
    data[offset] = 1
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        sum(data[::8192])
        time.sleep(1.5)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print("shared and well")
