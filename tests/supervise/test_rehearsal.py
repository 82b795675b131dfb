"""A rehearsal that comes to its limit is ended by us, and by nobody else; one that is only slow is waited for."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from keepfit.supervise.interrupt import Interrupt
from keepfit.supervise.rehearsal import Ask, Rehearsal

from .. import stage

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
    heard = rehearsal.rehearse((sys.executable, "-c", GREEDY), os.environ, 128 << 20, 60.0, lambda heard: None)
    reached += heard.reached
print(reached, killed)
"""


# Maps more of a file than there is room for beside what it holds, and reads it over and over.
THRASHES = """
import mmap, os, sys
kept = bytearray(b"x") * (88 << 20)
path = sys.argv[1]
with open(path, "wb") as out:
    for _ in range(64): out.write(os.urandom(1 << 20))
    out.flush(); os.fsync(out.fileno())
pages = mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ)
pages.madvise(mmap.MADV_RANDOM)
while True:
    sum(pages[place] for place in range(0, len(pages), 4096))
"""
# Long past the patience, and at rest: as where the machine gives it no CPU.
SLOW = "import time; time.sleep(600)"

IMPATIENT = """
import json, os, sys
from keepfit.supervise import rehearsal
argv, seconds = sys.argv[2:], float(sys.argv[1])
heard = rehearsal.rehearse(tuple(argv), os.environ, 128 << 20, seconds, lambda heard: None, 1, 0.5)
print(json.dumps([heard.thrashing, heard.late, heard.reached]))
"""


# Comes to its training call as a training does, and never ends what it is asked to try.
ASKS = """
import os, time
from keepfit.agent import heart
from keepfit.blackbox.folder import Folder
from keepfit.blackbox.journal import JournalWriter
own = heart.claim(os.environ["KEEPFIT_PULSE"])
JournalWriter.of(Folder.open(os.environ["KEEPFIT_RECORD"])).write("plan", rows=64)
own.counsel.ask("planned", rows=8, peak=1, seconds=1.0, spread=0)
time.sleep(600)
"""

ASKED = """
import json, os, signal, sys, time
from keepfit.supervise import rehearsal
from keepfit.supervise.interrupt import Interrupt

def next_ask(heard):
    if sys.argv[1] == "Ctrl-C":
        os.kill(os.getpid(), signal.SIGINT)
    return rehearsal.Ask(16, by=time.monotonic() + (0.2 if sys.argv[1] == "late" else 600))

with Interrupt() as stop:
    heard = rehearsal.rehearse(tuple(sys.argv[2:]), os.environ, 1 << 30, 600.0, next_ask, stop=stop)
rows = [trial.rows for trial in heard.trials]
print(json.dumps([heard.late, heard.interrupted, rows, heard.trying, stop.came, heard.came > 0]))
"""


@pytest.mark.parametrize("how", ["late", "Ctrl-C"])
def test_what_was_heard_is_kept_where_a_trial_is_cut_short(how):
    words = [sys.executable, "-c", ASKED, how, sys.executable, "-c", ASKS]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [how == "late", how == "Ctrl-C", [8], 16, how == "Ctrl-C", True]


def test_ctrl_c_before_anything_is_known_and_a_second_one_end_it_at_once():
    with Interrupt() as stop:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        stop.keep()
        signal.raise_signal(signal.SIGINT)
        assert stop.came
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_to_die_while_more_is_noted_of_a_size_that_has_run_says_nothing_of_it():
    for noting in (False, True):
        heard = Rehearsal(facts={}, asked=Ask(64, noting), reached=True)
        assert heard.died_trying is not noting


def impatient(seconds: float, *argv: str) -> list[bool]:
    words = [sys.executable, "-c", IMPATIENT, str(seconds), sys.executable, "-c", *argv]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_one_that_is_thrashing_is_not_waited_for(needs, tmp_path):
    needs("cgroup")
    assert impatient(stage.PATIENCE, THRASHES, str(tmp_path / "pages")) == [True, False, False]


def test_one_that_is_only_slow_did_not_come_to_the_limit(needs):
    needs("cgroup")
    assert impatient(3.0, SLOW) == [False, True, False]


def test_what_came_to_the_limit_is_not_killed_by_the_kernel(needs):
    needs("cgroup")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(TIMES), "0"], done.stderr
