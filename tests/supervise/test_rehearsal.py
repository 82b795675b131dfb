"""A rehearsal that comes to its limit is ended by us, and by nobody else."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cgroup

TIMES = 40  # ended in the other order, the kernel was the faster one in 8 of 100

# In a process of its own: it adopts what it starts.
PROGRAM = f"""
import os, sys
from keepfit.supervise import fence, rehearsal

GREEDY = '''
import threading
def take():
    kept = []
    while True: kept.append(bytearray(1 << 20))
for _ in range(4): threading.Thread(target=take).start()
'''
reached, killed, remove = 0, 0, fence.Fence.remove

def counted(made):
    global killed
    killed += sum(made.level.table(name).get("oom_kill", 0) for name in ("memory.oom_control", "memory.events"))
    remove(made)

fence.Fence.remove = counted
for _ in range({TIMES}):
    heard = rehearsal.rehearse((sys.executable, "-c", GREEDY), os.environ, 128 << 20, 60.0, lambda heard: 0)
    reached += heard.reached
print(reached, killed)
"""


def test_what_came_to_the_limit_is_not_killed_by_the_kernel(needs):
    needs("cgroup")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(TIMES), "0"], done.stderr
