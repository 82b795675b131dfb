"""Prints, and kills itself before anything is flushed: prints_and_dies.py ENDING"""

import os
import signal
import sys

for number in range(100):
    print(f"epoch {number}")
ending = {"newline": "\n", "return": "\r", "nothing": ""}[sys.argv[1]]
print("last words", end=ending)
os.kill(os.getpid(), signal.SIGKILL)
