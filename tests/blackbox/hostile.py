"""Records that somebody made to do harm, or that a disk spoilt: each is a way to spoil a good one."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from keepfit.blackbox import ring, safetensors, states
from keepfit.blackbox.folder import Folder
from keepfit.blackbox.journal import JournalWriter
from keepfit.blackbox.rundir import RunDirectory
from keepfit.blackbox.states import Manifest, Vault
from keepfit.facts import Beat, Sample

PRIVATE = b"a private file of the user's\n" * 10
Spoil = Callable[["Place"], None]


class Place:
    """A runs directory with one good record, and beside it what is none of our business."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self.outside = folder / "outside"
        for year in ("2023", "2024", "000001"):
            (self.outside / "photos" / year).mkdir(parents=True)
            (self.outside / "photos" / year / "picture.jpg").write_bytes(PRIVATE)
        (self.outside / "private").write_bytes(PRIVATE)
        with sqlite3.connect(self.outside / "bank.sqlite") as database:
            database.execute("CREATE TABLE accounts (name, balance)")
            database.execute("INSERT INTO accounts VALUES ('me', 5)")
        self.run = good_record(self.runs)
        self.path = self.run.path

    def untouched(self) -> dict[str, bytes]:
        """All that lies outside, with its content."""
        files = sorted(path for path in self.outside.rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path): path.read_bytes() for path in files}

    def replace(self, name: str, make: Callable[[str], object]) -> None:
        """Something else under the name of a file or directory of the record."""
        Folder.open(str(self.path)).remove(name)
        make(str(self.path / name))

    def rewrite(self, change: Callable[[dict], dict]) -> None:
        path = self.path / "journal.jsonl"
        lines = [json.dumps(change(json.loads(line))) for line in path.read_text().splitlines()]
        path.write_text("\n".join(lines) + "\n")


def good_record(runs: Path) -> RunDirectory:
    """A training that was killed, with samples, heartbeats, a finding, two states and a poisoned batch."""
    run = RunDirectory.create(runs)
    journal = JournalWriter.of(run.folder)
    journal.write("run", version=1, keepfit="0.1.0", id=run.id, name="good", argv=["python", "train.py"], cwd="/tmp",
                  environment={"LANG": "C"}, pid=1, start=1, boot="x", budget=1 << 30, guards=["memory"], agent="on",
                  watched=False, files={}, seed="5")  # fmt: skip
    journal.write("attempt", n=1, pid=4711, start=5, changed=None)
    journal.write("scene", n=1, budget=1 << 30, fence=None,
                  limit={"bytes": 1 << 30, "source": "--memory", "kind": "budget", "path": None},
                  counters=[{"path": "/x", "oom_kill": 0}], kernel_readable=True, kernel_pids_are_ours=True,
                  shares_cgroup=False, open_files_limit=1024, lacked=["nothing"])  # fmt: skip
    journal.write("agent", state="ready", pid=4711, parent=1, python="3.11", executable="/usr/bin/python3")
    journal.write("agent", state="awake", framework="keras", version="3.15", pid=4711, beats=True)
    journal.write(
        "splitting", step="train", batch=64, rows=16, limit=1 << 30, slope=1.5, base=2.0, model={"weights": 3}
    )
    journal.write("report", kind="health", training=1, norm=2.5)
    journal.write(
        "finding", code="KF212", condition="x", severity="warning", moment="watch", message="m", data={"a": 1}
    )
    journal.write("signal", time=1.0, signal=15, sender=3, sender_name="kill")
    journal.write("stall", time=2.0, silent_seconds=3.0, rule="progress", waiting_in=["a"])
    journal.write("danger", time=2.0, line_bytes=1 << 30, use_bytes=1 << 30, source="--memory", how="cgroup-v1")
    journal.write("loop", file="train.py", loop_line=3, loop_code="for x in ds:")
    journal.write("python-error", pid=4711, type="ValueError", message="no", bases=["Exception"], errno=None, chain=[],
                  frame={"file": "train.py", "line": 3, "function": "f", "code": "raise"})  # fmt: skip
    journal.write("kernel", lines=["oom-kill: x"])
    journal.write("checkpoint", generation=1, fit=1, kind="step", epoch=0, batch=3, bytes=10, stall=0.1)
    journal.write("exit", seen_by="front", status=None, signal=9, core=False)
    journal.write("deathbed", counters=[{"path": "/x", "oom_kill": 1}], disks=[{"role": "cwd", "path": "/", "free": 1, "total": 2}],
                  network_errors={"eth0": 1}, child_deaths=[{"pid": 3, "name": "w", "time": 1.0}], lacked=[], gpus=[{"name": "x"}])  # fmt: skip
    journal.write("verdict", outcome="died", cause="killed_unknown", code="KF508", confidence="certain")
    journal.write("end")
    journal.close()
    writer = ring.RingWriter(run.folder)
    now = time.monotonic()  # in the moment before the attempt ended
    for number in range(1, 50):
        writer.sample(Sample(time=now + number / 100, use=number << 20, processes=1))
        writer.beat(Beat(time=now + number / 100, pid=4711, phase="train", epoch=0, step=number))
    writer.close()
    for name in ("stdout", "stderr"):
        (run.path / name).write_bytes(struct.pack("<8sHQ", b"KEEPFIT\0", 1, 6).ljust(64, b"\0") + b"words\n")
    (run.path / "stacks" / "4711.txt").write_text("Fatal Python error: x\n")
    for vault in (Vault(run.checkpoints), Vault(run.batches)):
        for number in (1, 2):
            state(vault, number)
    return run


def state(vault: Vault, number: int, **more: object) -> None:
    slots = [safetensors.Slot("model/00000/kernel", "F32", (4,))]
    draft = vault.draft(number, 100)
    draft.write(states.STATE, lambda file: safetensors.write(file, slots, [bytes(16)]))
    draft.complete(Manifest(number=0, fit=1, state={"found": {"rows": [1]}}, **more))  # type: ignore[arg-type]


# --- what is put in place of something -----------------------------------------------------------------


def fifo(path: str) -> None:
    os.mkfifo(path)


def link_to(target: str) -> Callable[[str], None]:
    return lambda path: os.symlink(target, path)


NAMES = ("journal.jsonl", "ring", "stdout", "stderr", "stacks", "checkpoints", "batches", "lock", "ring-3")
THINGS: dict[str, Callable[[Place], Callable[[str], object]]] = {
    "a FIFO": lambda place: fifo,
    "a link to /dev/zero": lambda place: link_to("/dev/zero"),
    "a link to a private file": lambda place: link_to(str(place.outside / "private")),
    "a link to a folder": lambda place: link_to(str(place.outside / "photos")),
    "a link to itself": lambda place: link_to("self"),
    "a directory": lambda place: os.mkdir,
    "nothing": lambda place: lambda path: None,
    "an empty file": lambda place: lambda path: open(path, "w").close(),
    "noise": lambda place: lambda path: Path(path).write_bytes(bytes(range(256)) * 500),
}


def instead(name: str, thing: str) -> Spoil:
    return lambda place: place.replace(name, THINGS[thing](place))


# --- what a journal may say --------------------------------------------------------------------------------

VALUES = {
    "1e23": 1e23, "-1e300": -1e300, "a huge number": 10**60, "minus one": -1, "NaN": float("nan"), "Infinity": float("inf"),
    "a text": "text", "escapes": "\x1b[2J\x1b]0;owned\x07\u202e", "null": None, "true": True, "a list": [1, [2, {"a": []}]],
    "an object": {"a": {"b": [None]}}, "a long text": "x" * 100_000, "half a letter": "\ud800", "nothing at all": ...,
}  # fmt: skip


def everywhere(value: object) -> Spoil:
    """Every field of every event, and every field inside of them, has that value."""

    def changed(known: object) -> object:
        if isinstance(known, dict):
            return {name: changed(one) for name, one in known.items() if value is not ...}
        if isinstance(known, list):
            return [changed(one) for one in known]
        return value

    def change(event: dict) -> dict:
        inner = {name: changed(one) for name, one in event.items() if name != "event" and value is not ...}
        return {"event": event["event"], **inner}

    return lambda place: place.rewrite(change)


def lines(text: str) -> Spoil:
    return lambda place: (place.path / "journal.jsonl").write_text(text) and None


def without(*events: str) -> Spoil:
    def spoil(place: Place) -> None:
        path = place.path / "journal.jsonl"
        kept = [line for line in path.read_text().splitlines() if json.loads(line)["event"] not in events]
        path.write_text("\n".join(kept) + "\n")

    return spoil


def large(place: Place) -> None:
    line = json.dumps({"event": "kernel", "t": 1.0, "m": 1.0, "lines": ["x" * 1000]}) + "\n"
    with open(place.path / "journal.jsonl", "a") as file:
        for _ in range(100):
            file.write(line * 1000)


def many_small(place: Place) -> None:
    with open(place.path / "journal.jsonl", "a") as file:
        file.write('{"event":"attempt"}\n' * 300_000)


def one_line(place: Place) -> None:
    with open(place.path / "journal.jsonl", "ab") as file:
        file.truncate(100 << 20)


def ring_of_odd_numbers(place: Place) -> None:
    """With checksums that are right."""
    content = bytearray((place.path / "ring").read_bytes())
    for lane, values in ((ring.FAST, [65535, 2**32 - 1, b"\xff", *[2**64 - 1] * 6, float("nan"), *[2**64 - 1] * 4, 2**32 - 1,
                                      *[2**64 - 1] * 3, float("inf"), float("-inf"), float("nan")]),
                         (ring.BEATS, [2**32 - 1, 255, 255, -(2**31), -(2**31), 2**63 - 1, -(2**31), float("nan"), float("inf")])):  # fmt: skip
        for sequence, at in ((1, float("inf")), (2, float("nan")), (3, -1e300), (4, 7.0)):
            inner = lane.inner.pack(sequence, at, *values)
            start = lane.position(sequence)
            content[start : start + lane.size] = inner + struct.pack("<I", zlib.crc32(inner))
    (place.path / "ring").write_bytes(bytes(content))


# --- what may lie among the states -------------------------------------------------------------------------


def odd_states(place: Place) -> None:
    for vault in (place.run.checkpoints, place.run.batches):
        for name in ("²", "١٢", "000003", "-00001", "9" * 30, "0x10", "12", "000004.old", "\x1b[31m", "..."):
            (vault / name).mkdir()
        os.symlink(place.outside / "photos" / "2024", vault / "000007")
        os.mkfifo(vault / "000008")
        (vault / "000009").write_text("a file")
        (vault / "2024").mkdir()


def manifests(change: Callable[[dict], object]) -> Spoil:
    """What the newest state says of itself, with a checksum that is right."""

    def spoil(place: Place) -> None:
        for vault in (place.run.checkpoints, place.run.batches):
            path = vault / "000002" / states.MANIFEST
            known = json.loads(path.read_text())["manifest"]
            text = json.dumps(change(known) or known, separators=(",", ":"))
            path.write_text(f'{{"manifest":{text},\n"sha256":"{states.sha256(text.encode())}"}}\n')

    return spoil


def hollow_state(place: Place) -> None:
    """A terabyte of nothing, and a manifest that promises it."""
    os.truncate(place.run.checkpoints / "000002" / states.STATE, 1 << 40)
    manifests(lambda known: known["files"][states.STATE].update(bytes=1 << 40))(place)


def fifo_in_a_state(place: Place) -> None:
    path = place.run.checkpoints / "000002" / states.STATE
    path.unlink()
    os.mkfifo(path)


def a_very_deep_folder(place: Place) -> None:
    fd = os.open(place.run.checkpoints, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=fd)
        deeper = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)


# --- the runs directory itself --------------------------------------------------------------------------------


def index_of_odd_rows(place: Place) -> None:
    from keepfit.blackbox import index

    index.rows(place.runs)
    with sqlite3.connect(place.runs / index.FILE) as database:
        names = [name for _, name, *_ in database.execute("PRAGMA table_info(runs)") if name != "id"]
        for name in names:
            database.execute(f"UPDATE runs SET {name} = ?", (b"\xff\x00blob",))
        database.execute("INSERT INTO runs (id, command, started_at) VALUES (?, ?, ?)", ("../outside", "[1,", 1e300))


def index_that_computes(statement: str) -> Spoil:
    """An index of ours in which something that runs has the name of what is read."""

    def spoil(place: Place) -> None:
        from keepfit.blackbox import index

        index.rows(place.runs)
        with sqlite3.connect(place.runs / index.FILE) as database:
            columns = ", ".join(name for _, name, *_ in database.execute("PRAGMA table_info(runs)"))
            values = ", ".join("x" for _ in columns.split(", "))
            database.executescript(statement.format(columns=columns, values=values))

    return spoil


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {values} FROM n"


def odd_entries(place: Place) -> None:
    os.mkfifo(place.runs / "20300101-000000-fifo")
    os.symlink(place.path, place.runs / "20300101-000000-link")
    (place.runs / "a\nb\x1b[31m").mkdir()
    (place.runs / "a\nb\x1b[31m" / "journal.jsonl").write_text('{"event": "run", "name": "\\u001b[2J"}\n')
    (place.runs / "20300101-000000-dead").mkdir(mode=0o000)


SPOILT: dict[str, Spoil] = {
    **{f"{name}: {thing}": instead(name, thing) for name in NAMES for thing in THINGS},
    **{f"every field is {name}": everywhere(value) for name, value in VALUES.items()},
    "no attempt": without("attempt"),
    "no run": without("run"),
    "neither": without("run", "attempt"),
    "no end": without("exit", "deathbed", "verdict", "end"),
    "only an attempt": lines('{"event": "attempt"}\n'),
    "attempts that never end": lines('{"event": "attempt", "n": 1}\n' * 5000),
    "no object": lines('[]\n5\n"x"\nnull\n{}\n{"event": 5}\n'),
    "nested deeply": lines('{"event": "run", "a": ' + "[" * 100_000 + "]" * 100_000 + "}\n"),
    "a number of many digits": lines('{"event": "run", "t": ' + "9" * 5000 + "}\n"),
    "letters that are none": lambda place: (place.path / "journal.jsonl").write_bytes(b"\xff\xfe\x00" * 100) and None,
    "a hundred megabytes": large,
    "three hundred thousand attempts": many_small,
    "a line of a hundred megabytes": one_line,
    "a ring of odd numbers": ring_of_odd_numbers,
    "odd names among the states": odd_states,
    "a manifest of a path": manifests(lambda known: known["files"].update({"../../../outside/private": {"bytes": 1, "sha256": "x"}})),
    "a manifest of minus one": manifests(lambda known: known["files"][states.STATE].update(bytes=-1)),
    "a manifest of a text": manifests(lambda known: known.update(epoch="one", batch=[], step=None)),
    "a manifest of an odd time": manifests(lambda known: known.update(written=1e300)),
    "a manifest of a list": manifests(lambda known: [1]),
    "a manifest of no files": manifests(lambda known: known.update(files=5)),
    "a manifest of a newer keepfit": manifests(lambda known: known.update(format=99)),
    "a manifest of an odd state": manifests(lambda known: known.update(state={"found": 5, "batch": "x"}, kind="\x1b[2J")),
    "a state that is hollow": hollow_state,
    "a FIFO in a state": fifo_in_a_state,
    "a very deep folder": a_very_deep_folder,
    "an index of odd rows": index_of_odd_rows,
    "odd entries among the runs": odd_entries,
    "an index that is an endless view": index_that_computes("DROP TABLE runs; CREATE VIEW runs ({columns}) AS " + ENDLESS),
    "an index with a trigger": index_that_computes(
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM choices; END; DELETE FROM runs"
    ),
    "an index with a column that computes": index_that_computes(
        "DROP TABLE runs; CREATE TABLE runs ({columns}, more AS (zeroblob(900000000)))"
    ),
    "an index that is a FIFO": lambda place: fifo(str(place.runs / "index.sqlite")),
    "an index that is a directory": lambda place: os.mkdir(place.runs / "index.sqlite"),
    "an index that leads elsewhere": lambda place: os.symlink(place.outside / "bank.sqlite", place.runs / "index.sqlite"),
    "a record that can hardly be opened": lambda place: os.chmod(place.path, 0o100),
}  # fmt: skip
