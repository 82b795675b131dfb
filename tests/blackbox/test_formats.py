"""The record stays readable: torn, truncated, bit-flipped or full of garbage, it never raises."""

from __future__ import annotations

import math
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keepfit.blackbox import choices, index, journal, record, retention, ring, rundir, tail, wire
from keepfit.blackbox.folder import Folder
from keepfit.blackbox.pulse import Pulse
from keepfit.blackbox.rundir import RunDirectory
from keepfit.facts import Sample

SLOW_OK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def sample(number: int) -> Sample:
    return Sample(
        time=float(number),
        processes=2,
        threads=3,
        state="R",
        rss=number * 10,
        use=number * 9,
        cpu=number / 7,
        io_pressure=1.5,
    )


@pytest.fixture
def filled(tmp_path):
    writer = ring.RingWriter(Folder.open(str(tmp_path)))
    for number in range(1, 101):
        writer.sample(sample(number))
    writer.close()
    return tmp_path / "ring"


def test_what_is_written_is_read(filled):
    content = ring.read(Folder.open(str(filled.parent)))
    assert content.samples == tuple(sample(number) for number in range(1, 101)) and content.lost == ()


def test_the_ring_wraps_and_keeps_the_newest(tmp_path):
    writer = ring.RingWriter(Folder.open(str(tmp_path)))
    last = ring.FAST.count + 500
    for number in range(1, last + 1):
        writer.sample(sample(number))
    content = ring.read(Folder.open(str(tmp_path)))
    assert len(content.samples) == ring.FAST.count
    assert (content.samples[0].time, content.samples[-1].time) == (501.0, float(last))
    assert content.lost == ()


def test_the_slow_lane_reaches_further_back(tmp_path):
    writer = ring.RingWriter(Folder.open(str(tmp_path)))
    for number in range(1, 40):
        writer.sample(sample(number), ring.SLOW)
    for number in range(30, 50):
        writer.sample(sample(number))
    times = [s.time for s in ring.read(Folder.open(str(tmp_path))).samples]
    assert times == [float(n) for n in range(1, 50)]


def test_the_ring_is_allocated_not_sparse(filled):
    found = os.stat(filled)
    assert found.st_size == ring.SIZE and found.st_blocks * 512 >= ring.SIZE


@SLOW_OK
@given(st.lists(st.tuples(st.integers(0, ring.SIZE - 1), st.integers(1, 255)), max_size=50), st.integers(0, ring.SIZE))
def test_a_damaged_ring_never_raises_and_never_invents(tmp_path_factory, flips, cut):
    path = tmp_path_factory.mktemp("ring") / "ring"
    writer = ring.RingWriter(Folder.open(str(path.parent)))
    for number in range(1, 60):
        writer.sample(sample(number))
    content = bytearray(path.read_bytes())
    for position, mask in flips:
        content[position] ^= mask
    path.write_bytes(bytes(content[:cut]))
    found = ring.read(Folder.open(str(path.parent)))
    assert set(found.samples) <= {sample(number) for number in range(1, 60)}
    if cut < ring.SIZE:
        assert found.lost


@SLOW_OK
@given(st.binary(max_size=20000))
def test_garbage_is_no_ring(tmp_path_factory, garbage):
    path = tmp_path_factory.mktemp("ring") / "ring"
    path.write_bytes(garbage)
    assert ring.read(Folder.open(str(path.parent))).samples == ()


def test_a_newer_format_is_said(filled):
    content = bytearray(filled.read_bytes())
    content[8] = 99
    filled.write_bytes(bytes(content))
    (lost,) = ring.read(Folder.open(str(filled.parent))).lost
    assert "format 99" in lost


# --- journal --------------------------------------------------------------------------------------------


def test_a_torn_last_line_is_tolerated(tmp_path):
    path, folder = str(tmp_path / "journal.jsonl"), Folder.open(str(tmp_path))
    writer = journal.JournalWriter.of(folder)
    writer.write("run", id="x")
    writer.write("exit", status=0)
    writer.close()
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - 9)
    events, lost = journal.read(folder)
    assert [event["event"] for event in events] == ["run"] and lost == ["1 unreadable journal line skipped"]


@SLOW_OK
@given(st.binary(max_size=5000))
def test_garbage_is_no_journal(tmp_path_factory, garbage):
    path = tmp_path_factory.mktemp("journal")
    (path / "journal.jsonl").write_bytes(garbage)
    journal.read(Folder.open(str(path)))


@SLOW_OK
@given(st.text(max_size=300), st.floats(allow_nan=True), st.binary(max_size=10))
def test_any_text_comes_back(tmp_path_factory, text, number, odd):
    folder = Folder.open(str(tmp_path_factory.mktemp("journal")))
    journal.JournalWriter.of(folder).write("x", text=text, number=number, odd=odd)
    (event,), lost = journal.read(folder)
    assert event["text"] == text and not lost
    assert event["number"] == number or math.isnan(number)


def test_a_journal_that_cannot_be_written_says_so_and_does_nothing(tmp_path):
    folder = Folder.open(str(tmp_path))
    tmp_path.rmdir()
    writer = journal.JournalWriter.of(folder)
    writer.write("run")
    assert writer.failure == "No such file or directory"


def test_a_descriptor_that_is_somebody_elses_now_is_not_written_to(tmp_path):
    writer = journal.JournalWriter.of(Folder.open(str(tmp_path)))
    ours = writer._fd
    assert ours is not None
    theirs = os.open(tmp_path / "results.csv", os.O_RDWR | os.O_CREAT)
    os.dup2(theirs, ours)
    writer.write("run")
    assert (tmp_path / "results.csv").read_bytes() == b""
    assert [event["event"] for event in journal.read(Folder.open(str(tmp_path)))[0]] == ["run"]
    writer.close()
    os.fstat(ours)  # still theirs, and still open


def test_another_journal_in_the_place_of_ours_is_not_written_to(tmp_path):
    writer = journal.JournalWriter.of(Folder.open(str(tmp_path)))
    assert writer._fd is not None
    os.close(writer._fd)
    (tmp_path / "journal.jsonl").rename(tmp_path / "moved")
    (tmp_path / "journal.jsonl").write_bytes(b"")
    writer.write("run")
    assert (tmp_path / "journal.jsonl").read_bytes() == b"" and writer.failure


def test_of_a_journal_of_a_hundred_megabytes_both_ends_are_read(tmp_path):
    folder = Folder.open(str(tmp_path))
    journal.JournalWriter.of(folder).write("run", id="x")
    with open(tmp_path / "journal.jsonl", "ab") as file:
        line = b'{"event": "kernel", "lines": ["%s"]}\n' % (b"x" * 1000)
        for _ in range(100):
            file.write(line * 1000)
    journal.JournalWriter.of(folder).write("end")
    events, (lost,) = journal.read(folder)
    assert (events[0]["event"], events[-1]["event"]) == ("run", "end")
    assert all(event["event"] in ("run", "kernel", "end") for event in events) and "MiB in the middle" in lost


# --- tails ------------------------------------------------------------------------------------------------


@SLOW_OK
@given(st.lists(st.binary(max_size=tail.CAPACITY // 3), max_size=8), st.integers(0, 3))
def test_the_tail_is_the_tail(tmp_path_factory, pieces, repeat):
    folder = Folder.open(str(tmp_path_factory.mktemp("tail")))
    writer = tail.TailWriter(folder, "t")
    for piece in pieces * repeat:
        writer.write(piece)
    assert tail.read(folder, "t") == b"".join(pieces * repeat)[-tail.CAPACITY :]


def test_one_write_larger_than_the_tail(tmp_path):
    writer = tail.TailWriter(Folder.open(str(tmp_path)), "t")
    writer.write(b"start")
    writer.write(bytes(range(256)) * 3000)
    assert tail.read(Folder.open(str(tmp_path)), "t") == (bytes(range(256)) * 3000)[-tail.CAPACITY :]


def test_progress_bars_read_as_lines(tmp_path):
    writer = tail.TailWriter(Folder.open(str(tmp_path)), "t")
    writer.write(b"epoch 1\r\n 1/9\r 2/9\rdone \xff")
    assert tail.text(Folder.open(str(tmp_path)), "t").split("\n") == ["epoch 1", " 1/9", " 2/9", "done \ufffd"]


# --- the pulse ----------------------------------------------------------------------------------------------


def test_the_pulse_cannot_be_truncated_under_the_trainee():
    pulse = Pulse()
    with pytest.raises(PermissionError):
        os.ftruncate(pulse.fd, 0)


def test_the_pulse_is_drained_in_order_also_when_lapped():
    from keepfit.agent.heart import claim

    pulse = Pulse()
    heart = claim(pulse.address)
    assert heart is not None
    heart.enter("train")
    for step in range(5):
        heart.step_began(step)
    drained = pulse.new_records()
    assert [sequence for sequence, _ in drained] == [1, 2, 3, 4, 5, 6] and pulse.new_records() == []
    for step in range(wire.PULSE_BEATS.count + 10):
        heart.step_began(step)
    drained = pulse.new_records()
    assert len(drained) == wire.PULSE_BEATS.count and drained[-1][0] == 6 + wire.PULSE_BEATS.count + 10
    decoded = ring.BEATS.decode(drained[-1][1])
    assert decoded is not None and ring.beat(decoded[1], decoded[2]).step == wire.PULSE_BEATS.count + 9
    assert pulse.phase == "train"


# --- whole records --------------------------------------------------------------------------------------------


@SLOW_OK
@given(st.dictionaries(st.sampled_from(["ring", "journal.jsonl", "stdout", "stderr"]), st.binary(max_size=3000)))
def test_a_record_of_garbage_is_still_a_record(tmp_path_factory, files):
    run = RunDirectory.create(tmp_path_factory.mktemp("runs"))
    for name, content in files.items():
        (run.path / name).write_bytes(content)
    from keepfit.conditions.verdict import judge

    verdict = judge(record.load(run))
    assert verdict.outcome in ("unknown", "died") and verdict.confidence in ("unknown", "possible")


@pytest.mark.parametrize(
    "line", ['{"event": "run", "t": "x"}', '{"event": "attempt", "pid": "p", "m": "q"}', '{"event": "run", "argv": 5}']
)
def test_a_journal_that_makes_no_sense_spoils_nothing(tmp_path, line):
    good, bad = recorded(tmp_path, "good"), RunDirectory.create(tmp_path)
    (bad.path / "journal.jsonl").write_text(line + "\n")
    assert {row.id for row in index.rows(tmp_path)} == {good.id, bad.id}
    from keepfit.conditions.verdict import judge

    assert judge(record.load(bad)).outcome in ("unknown", "died")


def test_run_directories_are_private(tmp_path):
    run = RunDirectory.create(tmp_path / "runs")
    assert run.path.stat().st_mode & 0o777 == 0o700 and (tmp_path / "runs").stat().st_mode & 0o777 == 0o700


def test_ids_sort_by_time_also_within_a_second():
    moments = [1794713638 + n / 100 for n in range(300)]
    ids = [rundir.new_id(moment) for moment in moments]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)


def test_a_later_run_sorts_later_whatever_the_clock_says(tmp_path, monkeypatch):
    runs, clock = tmp_path / "runs", iter([2e9, 1e9, 1.5e9, 2e9, *[2e9 + 0.999999] * 20])
    monkeypatch.setattr(rundir.time, "time", lambda: next(clock))
    made = [RunDirectory.create(runs).id for _ in range(24)]
    assert made == sorted(made) and len(set(made)) == 24


def test_default_place():
    assert str(rundir.default_runs_directory({"KEEPFIT_RUNS": "/x"})) == "/x"
    assert str(rundir.default_runs_directory({"XDG_STATE_HOME": "/s"})) == "/s/keepfit/runs"
    assert str(rundir.default_runs_directory({})).endswith(".local/state/keepfit/runs")


# --- index and retention -----------------------------------------------------------------------------------------


def recorded(runs, name=""):
    run = RunDirectory.create(runs)
    writer = journal.JournalWriter.of(run.folder)
    writer.write("run", id=run.id, name=name, argv=["python", "x.py"], cwd="/", boot="", pid=1, start=1)
    writer.write("verdict", outcome="died", cause="segfault", code="KF501", confidence="certain")
    return run


@pytest.mark.parametrize("damage", ["lost", "garbage", "read-only garbage"])
def test_a_lost_index_is_rebuilt(tmp_path, damage):
    runs = [recorded(tmp_path, f"n{n}") for n in range(3)]
    assert {row.id for row in index.rows(tmp_path)} == {run.id for run in runs}
    place = tmp_path / index.FILE
    if damage == "lost":
        place.unlink()
    else:
        place.write_bytes(b"not a database at all" * 100)
    rows = index.rows(tmp_path)
    assert [(row.name, row.state, row.cause) for row in sorted(rows, key=lambda row: row.name)] == [
        (f"n{n}", "died", "segfault") for n in range(3)
    ]
    assert index.rows(tmp_path) == rows


def test_what_was_measured_is_remembered_in_a_file_that_was_damaged(tmp_path):
    (tmp_path / index.FILE).write_bytes(b"not a database at all" * 100)
    assert choices.recall(tmp_path, "model") is None
    choices.remember(tmp_path, "model", 1.0, {"above": 5})
    assert choices.recall(tmp_path, "model") == {"above": 5}


def test_a_removed_directory_is_no_run(tmp_path):
    import shutil

    first, second = recorded(tmp_path), recorded(tmp_path)
    index.rows(tmp_path)
    shutil.rmtree(first.path)
    assert [row.id for row in index.rows(tmp_path)] == [second.id]


def test_finding_a_run(tmp_path):
    rows = [index.Row(id="20260101-000000-aaaa", name="bert"), index.Row(id="20260102-000000-bbbb", name="bert")]
    assert index.find(rows, "latest") == rows[1]
    assert index.find(rows, "bert") == rows[1]
    assert index.find(rows, "20260101") == rows[0]
    assert index.find(rows, "2026") == [rows[0].id, rows[1].id]
    assert "bert" in index.find(rows, "brt")  # type: ignore[operator]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(0, 20), st.integers(0, 500))
def test_retention_keeps_the_newest_within_both_bounds(sizes, count, total):
    named = [(f"{n:03}", size) for n, size in enumerate(sizes)]
    removed = retention.surplus(named, retention.Policy(count, total))
    kept = [run for run, _ in named if run not in removed]
    assert kept and kept == [run for run, _ in named[-len(kept) :]], "what is kept are the newest, in order"
    if len(kept) > 1:
        assert len(kept) <= count and sum(size for run, size in named if run in kept) <= total


def test_retention_never_removes_a_live_run(tmp_path):
    runs = sorted((recorded(tmp_path) for _ in range(4)), key=lambda run: run.id)
    removed = retention.apply(tmp_path, retention.Policy(runs=1), lambda run: run.id == runs[0].id)
    assert removed == [runs[1].id, runs[2].id] and runs[0].path.exists() and runs[3].path.exists()


# --- letters between agent and supervisor ------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=20), max_size=5), st.integers(1, 2**60))
def test_a_letter_arrives_as_it_was_sent(letter, sequence):
    memory = bytearray(wire.PULSE_SIZE)
    assert wire.PULSE_QUESTION.post(memory, sequence, letter)
    assert wire.PULSE_QUESTION.read(memory) == (sequence, letter)
    assert wire.PULSE_ANSWER.read(memory) is None


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_torn_letter_is_no_letter(position, flip):
    memory = bytearray(wire.PULSE_SIZE)
    wire.PULSE_QUESTION.post(memory, 7, {"ask": "batch", "rows": 1024})
    intact = wire.PULSE_QUESTION.read(memory)
    memory[wire.PULSE_QUESTION.offset + 8 + position % 38] ^= flip
    assert wire.PULSE_QUESTION.read(memory) != intact


def test_a_letter_that_is_too_long_is_not_sent():
    memory = bytearray(wire.PULSE_SIZE)
    assert not wire.PULSE_ANSWER.post(memory, 1, {"text": "x" * 5000})
    assert wire.PULSE_ANSWER.read(memory) is None


def test_the_next_process_of_a_run_is_not_given_the_last_ones_answer():
    from keepfit.agent.counsel import Counsel

    pulse = Pulse()
    memory = pulse._memory
    wire.PULSE_QUESTION.post(memory, 1, {"ask": "batch"})
    assert pulse.question() == {"ask": "batch"}
    pulse.answer(do="whole")
    later = Counsel(memory)
    assert later._sequence == 1  # its first question is number two, and answered by nobody yet
