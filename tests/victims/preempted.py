"""Slurm takes the node back: its words go to stderr, then SIGTERM comes."""

import sys
import time

print(
    "slurmstepd: error: *** JOB 4711 ON node7 CANCELLED AT 2026-11-15T03:00:00 DUE TO PREEMPTION ***",
    file=sys.stderr,
)
print("ready", flush=True)
time.sleep(60)
