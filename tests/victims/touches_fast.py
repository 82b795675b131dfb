"""Two threads that touch fresh memory as fast as the machine can: touches_fast.py MIB"""

import ctypes
import mmap
import sys
import threading

share = (int(sys.argv[1]) << 20) // 2
print("ready", flush=True)


def touch():
    memory = mmap.mmap(-1, share)
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(memory)), 1, share)


threads = [threading.Thread(target=touch) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("touched it all", flush=True)
