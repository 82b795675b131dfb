"""Somebody kills it with -9 while there is plenty of memory."""

import time

print("ready", flush=True)
time.sleep(60)
