"""The ways between two descriptors: every byte arrives once and in order, and the last 256 KiB are in the record."""

from __future__ import annotations

import errno
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepfit.blackbox import tail
from keepfit.blackbox.folder import Folder
from keepfit.supervise import relay

SIZES = st.lists(st.sampled_from([1, 7, 100, 4096, 5000, 65536, 300_000]), min_size=1, max_size=12)


def pieces(sizes: list[int]) -> list[bytes]:
    return [bytes((place * 31 + number) % 251 for place in range(size)) for number, size in enumerate(sizes)]


def carried(folder: Folder, sizes: list[int], sink_kind: str, slow: bool) -> tuple[bytes, bytes, type]:
    """(what came out, what the record has, how it was carried)"""
    source, feed = os.pipe()
    os.set_blocking(source, False)
    out, sink = os.pipe() if sink_kind == "pipe" else (-1, os.open(folder.path + "/out", os.O_RDWR | os.O_CREAT))
    writer = tail.TailWriter(folder, "tail")
    channel = relay.channel(source, sink, writer)
    carrying = relay.Relay([channel])

    def write() -> None:
        for piece in pieces(sizes):
            while piece:
                piece = piece[os.write(feed, piece) :]
        os.close(feed)

    got: list[bytes] = []

    def read() -> None:
        while data := os.read(out, 1000 if slow else 1 << 20):
            got.append(data)

    threads = [threading.Thread(target=write), *([threading.Thread(target=read)] if out >= 0 else [])]
    for thread in threads:
        thread.start()
    while not carrying.finished:
        poll = relay.Poller()
        carrying.register(poll)
        carrying.pump(poll.wait(10))
    os.close(sink)
    for thread in threads:
        thread.join()
    if out >= 0:
        os.close(out)
    else:
        with open(folder.path + "/out", "rb") as file:
            got.append(file.read())
    os.close(source)
    return b"".join(got), tail.read(folder, "tail"), type(channel)


@pytest.mark.parametrize("small_pipes", [False, True])
@pytest.mark.parametrize(("sink", "how"), [("pipe", relay.Moving), ("file", relay.Copying)])
@settings(max_examples=25)
@given(sizes=SIZES, slow=st.booleans())
def test_every_byte_once_and_in_order(tmp_path_factory, sink, how, small_pipes, sizes, slow):
    with pytest.MonkeyPatch.context() as patch:
        if small_pipes:
            patch.setattr(relay, "ROOMY", 4096)
        folder = Folder.open(str(tmp_path_factory.mktemp("tail")))
        came, kept, kind = carried(folder, sizes, sink, slow)
    whole = b"".join(pieces(sizes))
    assert came == whole and kept == whole[-tail.CAPACITY :] and kind is how


def test_where_the_record_cannot_be_written_the_output_goes_on(tmp_path, monkeypatch):
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwrite", full)
    real = os.splice

    def splice(source: int, target: int, count: int, **more: object) -> int:
        return full() if "offset_dst" in more else real(source, target, count, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "splice", splice)
    came, _, _ = carried(Folder.open(str(tmp_path)), [100, 300_000, 7], "pipe", slow=False)
    assert came == b"".join(pieces([100, 300_000, 7]))


def test_a_reader_that_leaves_is_told_once(tmp_path):
    source, feed = os.pipe()
    os.set_blocking(source, False)
    out, sink = os.pipe()
    channel = relay.channel(source, sink)
    told: list[int] = []
    channel.on_broken = lambda fd, error: told.append(error.errno or 0)
    os.close(out)
    os.write(feed, b"nobody reads this")
    channel.read()
    assert told == [errno.EPIPE] and channel.finished
    with pytest.raises(BrokenPipeError):
        os.write(feed, b"nor this")


def test_a_tail_goes_on_where_another_process_wrote_to(tmp_path):
    folder = Folder.open(str(tmp_path))
    first, second = tail.TailWriter(folder, "t"), tail.TailWriter(folder, "t")
    first.write(b"one ")
    second.catch_up()
    second.write(b"two")
    assert tail.read(folder, "t") == b"one two"
