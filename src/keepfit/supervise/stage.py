"""The stage: the descriptors between user and command, set before anything runs."""

from __future__ import annotations

import os
import select
import stat
from dataclasses import field

from ..blackbox.tail import TailWriter
from ..quick import dataclass
from . import launch, terminal
from .relay import Relay, channel, make_roomy


@dataclass
class Stage:
    """The descriptors between user and command."""

    wiring: launch.Wiring
    sources: list[tuple[int, int, str]]  # (read end, the user's descriptor, stdout | stderr)
    ours_to_close: list[int]  # the command's ends, closed here once it has them
    master: int | None = None
    keyboard: int | None = None
    raw: terminal.RawMode | None = None
    tails: dict[str, TailWriter] = field(default_factory=dict)

    def relay(self) -> Relay:
        return Relay([channel(source, sink, self.tails.get(name)) for source, sink, name in self.sources])

    def taken_over(self) -> Relay:
        """The same in another process, where the one that carried so far is gone."""
        for tail in self.tails.values():
            tail.catch_up()
        return self.relay()

    def terminal_is_gone(self) -> bool:
        return self.keyboard is not None and not terminal.is_terminal(self.keyboard)

    def restore_terminal(self) -> None:
        if self.raw is not None:
            self.raw.restore()


class Input:
    """What the command reads from: can a second attempt read it from the start?"""

    def __init__(self) -> None:
        self._offset: int | None = None
        mode = os.fstat(0).st_mode
        if stat.S_ISREG(mode):
            self._offset = os.lseek(0, 0, os.SEEK_CUR)
            self.can_be_read_again = True
        elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            # Whoever pipes data in has begun by now; an empty pipe is one that nobody writes to.
            self.can_be_read_again = not select.select([0], [], [], 0)[0]
        else:
            self.can_be_read_again = True  # a terminal, or nothing at all

    def rewind(self) -> None:
        if self._offset is not None:
            os.lseek(0, self._offset, os.SEEK_SET)


def set_stage() -> Stage:
    """Pipes, or a pseudo-terminal where ours is one.

    stdout and stderr stay apart, unless both are the same terminal, pipe or file: then only one line between
    them keeps the order in which the command wrote.
    """
    together = _same(1, 2)
    sources: list[tuple[int, int, str]] = []
    to_close: list[int] = []
    ends: dict[str, int] = {}
    pair: tuple[int, int] | None = None
    for fd, name in ((1, "stdout"), (2, "stderr")):
        if name == "stderr" and together:
            ends[name] = ends["stdout"]
            continue
        read, write, is_pair = _line(fd)
        sources.append((read, fd, name))
        to_close.append(write)
        ends[name] = write
        if is_pair and pair is None:
            pair = read, write
        os.set_blocking(read, False)
    stdin, keyboard, raw = 0, None, None
    # Only where the screen is ours as well: with `| tee` others write to that terminal, and raw would garble them.
    if pair is not None and sources[0][0] == pair[0] and terminal.is_terminal(0):
        stdin, keyboard, raw = pair[1], 0, terminal.RawMode(0)
    wiring = launch.Wiring(
        stdin,
        ends["stdout"],
        ends["stderr"],
        terminal=pair[1] if pair is not None and keyboard is not None else None,
        # With a terminal about, the command shares our group: in one of its own it may not read that terminal.
        own_group=not terminal.is_controlled(),
    )
    return Stage(wiring, sources, to_close, pair[0] if pair is not None else None, keyboard, raw)


def _line(fd: int) -> tuple[int, int, bool]:
    """(our end, the command's end, whether it is a pseudo-terminal) of a line that ends in `fd`."""
    if terminal.is_terminal(fd):
        try:
            return (*terminal.open_pair(fd), True)
        except OSError:
            pass  # no pseudo-terminal to be had (a tight sandbox): a pipe carries the bytes as well
    read, write = os.pipe2(os.O_CLOEXEC)
    make_roomy(write)
    return read, write, False


def _same(a: int, b: int) -> bool:
    """Whether two descriptors lead to the same place."""
    one, other = os.fstat(a), os.fstat(b)
    return (one.st_dev, one.st_ino, one.st_rdev) == (other.st_dev, other.st_ino, other.st_rdev)
