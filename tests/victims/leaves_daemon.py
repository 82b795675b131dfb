"""Leaves a daemon behind that goes on writing to its output: leaves_daemon.py SECONDS"""

import os
import sys
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(float(sys.argv[1]))
        print("the daemon's last word", flush=True)
    os._exit(0)
print("the program's last word", flush=True)
