"""The stage: the descriptors between user and command, set before anything runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ..blackbox.tail import TailWriter
from . import launch, terminal
from .relay import Channel, Relay


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
        channels = [Channel(source, sink, self.tails.get(name)) for source, sink, name in self.sources]
        return Relay(channels)

    def restore_terminal(self) -> None:
        if self.raw is not None:
            self.raw.restore()


def fill_standard_descriptors() -> None:
    """Started with 0, 1 or 2 closed, the next pipe we open would take that number and be mistaken for it."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one


def set_stage() -> Stage:
    """Pipes, or a pseudo-terminal where ours is one; stdout and stderr apart unless they are one terminal."""
    out_terminal, err_terminal = terminal.is_terminal(1), terminal.is_terminal(2)
    master = slave = keyboard = raw = None
    if out_terminal or err_terminal:
        master, slave = terminal.open_pair(1 if out_terminal else 2)
    sources: list[tuple[int, int, str]] = []
    to_close: list[int] = []
    ends: dict[str, int] = {}
    for fd, name in ((1, "stdout"), (2, "stderr")):
        if terminal.is_terminal(fd) and slave is not None and master is not None:
            ends[name] = slave
            if not any(source == master for source, _, _ in sources):
                sources.append((master, fd, name))
            elif not terminal.same_terminal(1, 2):
                # Two different terminals: the second keeps a line of its own.
                other_master, other_slave = terminal.open_pair(fd)
                sources.append((other_master, fd, name))
                to_close.append(other_slave)
                ends[name] = other_slave
        else:
            read, write = os.pipe2(os.O_CLOEXEC)
            sources.append((read, fd, name))
            to_close.append(write)
            ends[name] = write
    stdin = 0
    if slave is not None:
        to_close.append(slave)
        if terminal.is_terminal(0):
            stdin, keyboard = slave, 0
            raw = terminal.RawMode(0)
    typed_at = terminal.is_terminal(0) and slave is None  # the command reads our terminal itself
    wiring = launch.Wiring(
        stdin,
        ends["stdout"],
        ends["stderr"],
        terminal=slave if keyboard is not None else None,
        own_group=not typed_at,
    )
    for source, _, _ in sources:
        os.set_blocking(source, False)
    return Stage(wiring, sources, to_close, master, keyboard, raw)
