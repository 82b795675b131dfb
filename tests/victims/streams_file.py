"""Reads a file many times larger than its memory, twice: streams_file.py FILE"""

import sys

total = 0
for _ in range(2):
    with open(sys.argv[1], "rb") as file:
        while chunk := file.read(1 << 20):
            total += len(chunk)
print(f"read {total} bytes")
