"""A worker that ended and was never waited for, while the parent goes on."""

import os
import time

if os.fork() == 0:
    os._exit(1)
time.sleep(0.6)
print("done with a zombie")
