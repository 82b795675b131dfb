"""What steps take from TensorFlow's pool of host memory and give back, in their order: as its own profiler has it."""

import contextlib
import glob
import os
import tempfile
from importlib import import_module

from .parts import tf

_TAKEN, _GIVEN_BACK = "MemoryAllocation", "MemoryDeallocation"


class Recording:
    """Around some steps. `told` is None where there is no pool or profiler, or where the script uses it itself."""

    def __init__(self, variables, folder):
        """Bytes of each variable, in the order that they were made in. In the folder there is a file for a while."""
        self._variables = variables
        self._within = folder
        self._folder = None
        self.told = None

    def __enter__(self):
        try:
            self._lying = tf().config.experimental.get_memory_info("CPU:0")["current"]
            folder = tempfile.TemporaryDirectory(prefix="pool-", dir=self._within)
            with _unheard():
                tf().profiler.experimental.start(folder.name)
            self._folder = folder
        except Exception:  # no pool, or a profiler that is at work already
            self._folder = None
        return self

    def __exit__(self, *_):
        if self._folder is None:
            return
        with self._folder as folder:
            try:
                with _unheard():
                    tf().profiler.experimental.stop()
                self.told = self._read(folder)
            except Exception:  # another version's format: nothing is told
                self.told = None

    def _read(self, folder):
        """{variables, lying, before, events, names}: bytes, and (number, bytes, operation) of what lay there already
        and of what came and went; 0 bytes where it is given back."""
        (path,) = glob.glob(f"{glob.escape(folder)}/**/*.xplane.pb", recursive=True)
        space = import_module("tensorflow.tsl.profiler.protobuf.xplane_pb2").XSpace()
        with open(path, "rb") as file:
            space.ParseFromString(file.read())
        names, events, lying, before = {}, [], {}, []
        for number, (_, taken, address, size, name) in enumerate(sorted(_moves(space))):
            if taken:
                lying[address] = number
                events.append((number, size, names.setdefault(name, len(names))))
            elif address in lying:
                events.append((lying.pop(address), 0, names.setdefault("", len(names))))
            else:  # it lay there when the first step began
                before.append((number, size, names.setdefault(name, len(names))))
                events.append((number, 0, names.setdefault("", len(names))))
        return {"variables": self._variables, "lying": self._lying, "before": before, "events": events,
                "names": list(names)}  # fmt: skip


@contextlib.contextmanager
def _unheard():
    """What the profiler's C++ says of itself is of no use to anybody: nothing of the script's runs any more."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _moves(space):
    """(when, whether it was taken, address, bytes, operation)"""
    for plane in space.planes:
        events = {number: known.name for number, known in plane.event_metadata.items()}
        names = {number: known.name for number, known in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                kind = events[event.metadata_id]
                if kind in (_TAKEN, _GIVEN_BACK):
                    stats = {names[stat.metadata_id]: stat for stat in event.stats}
                    if _text(stats["allocator_name"], names) == "mklcpu":
                        at = line.timestamp_ns * 1000 + event.offset_ps
                        name = _text(stats["tf_op"], names) if "tf_op" in stats else ""
                        yield at, kind == _TAKEN, _number(stats["addr"]), _number(stats["requested_bytes"]), name


def _text(stat, names):
    return stat.str_value or names.get(stat.ref_value, "")


def _number(stat):
    return stat.uint64_value or stat.int64_value
