"""Prints numbered lines at a steady pace: counts.py LINES PAUSE"""

import sys
import time

for number in range(int(sys.argv[1])):
    print(f"line {number}")
    time.sleep(float(sys.argv[2]))
