"""Starts threads until there is no room for another one."""

import resource
import threading

threading.stack_size(256 << 20)
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
stop = threading.Event()
for _ in range(100):
    threading.Thread(target=stop.wait, daemon=True).start()
