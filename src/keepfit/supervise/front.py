"""The front: what the user started. It launches, carries bytes and signals, and knows the exit status.

It holds no rule and reads no /proc. Whatever else of keepfit fails, this goes on to the command's end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from ..blackbox.journal import JournalWriter
from ..facts import Exit, as_json
from ..machine import pidfd, procfs
from . import launch, terminal
from .fence import Fence, cannot_start
from .link import Link
from .relay import Copying, Poller, Relay
from .signals import ALL, Arrived, SignalQueue
from .stage import Stage

TURN = 0.05  # seconds, where something can only be asked for: signals without signalfd, an end without pidfd
LONG = 60.0  # seconds, where everything that can happen wakes us
DRAIN = 5.0  # for what the command wrote before it ended
VERDICT_WAIT = 10.0  # for the judge's last word

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


_EVERYDAY = (signal.SIGCONT, signal.SIGWINCH, signal.SIGURG, signal.SIGALRM)  # nobody dies of them


class Front:
    """From launch to exit status."""

    def __init__(
        self,
        stage: Stage,
        journal: JournalWriter | None,
        link: Link | None,
        judge: int | None,
        fence: Fence | None,
        given: launch.Inherited,
    ) -> None:
        self._stage = stage
        self._journal = journal
        self._link = link
        self._judge = judge
        self._fence = fence
        self._exit: Exit | None = None
        self._done = False
        self._abandoned = False
        self._called_off = False
        self._status: int | None = None  # the one to give, where it is not the command's own
        self.again: dict[str, Any] | None = None  # the judge wants another attempt, with this changed
        self._given = given
        self._signals = SignalQueue(ALL)

    def start(
        self,
        path: str,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        score: int | None = None,
        attempt: int = 1,
        changed: str | None = None,
        scene: Mapping[str, Any] | None = None,
    ) -> int:
        fence = self._fence

        def prepare() -> None:
            if score is not None:  # ours was lowered; the command's is as the user had it
                with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
                    file.write(str(score))
            if fence is not None:
                with contextlib.suppress(OSError):  # the judge sees it outside, and samples instead
                    fence.join()

        stuck = partial(cannot_start, self._fence, argv[0])
        self._pid = launch.launch(path, argv, environment, self._stage.wiring, self._given, prepare, stuck)
        for fd in self._stage.ours_to_close:
            os.close(fd)
        self._pidfd = pidfd.open_pid(self._pid)
        known = procfs.stat(self._pid)
        start = known.start if known else 0
        if self._journal is not None:
            self._journal.write("attempt", n=attempt, pid=self._pid, start=start, changed=changed)
            self._journal.write("scene", n=attempt, **(scene or {}))
        if self._link is not None:
            self._link.send(started=self._pid, start=start, attempt=attempt)
        return self._pid

    def carry(self) -> int:
        """Carry everything until the command has ended; returns the status to end with, or minus the signal."""
        self._relay = self._stage.relay()
        for channel in self._relay.channels:
            channel.on_broken = self._unread
        self._typing = self._keyboard()
        if self._stage.raw is not None:
            self._stage.raw.enter()
        try:
            waking = self._signals.fileno() is not None and self._pidfd is not None
            while self._exit is None:
                self._turn(LONG if waking else TURN)
            self._relay.drain(DRAIN)
        finally:
            if self._stage.raw is not None:
                self._stage.raw.leave()
        self._await_verdict()
        if self._called_off and self.again is not None:
            self.again, self._done = None, False  # the judge reckoned with another attempt, and said nothing
        if self.again is None:
            self._linger()
        else:
            self._part_with_judge()
        if self._status is not None:
            return self._status
        if self._exit.signal is not None:
            return -self._exit.signal
        return self._exit.status if self._exit.status is not None else 1

    def _unread(self, source: int, error: OSError) -> None:
        """Output can no longer be delivered: the command learns it at its next write, as it would alone."""
        if self._link is not None:
            self._link.send(unread=source)
        if error.errno != errno.EPIPE:  # a reader that went away is its own affair; a full disk is not
            self.say(f"keepfit: output could not be written ({error.strerror}); the record still has its end")

    @property
    def judged(self) -> bool:
        """Whether the judge has said its word on the end."""
        return self._done

    def _keyboard(self) -> Relay:
        stage = self._stage
        if stage.keyboard is None or stage.master is None:
            return Relay([])
        keys = Copying(os.dup(stage.keyboard), stage.master)
        keys.before = self._typed
        return Relay([keys])

    def _turn(self, seconds: float) -> None:
        poll = Poller()
        self._relay.register(poll)
        if self._stage.raw is not None and self._stage.raw.active:
            self._typing.register(poll)
        if self._pidfd is not None and self._exit is None:
            poll.want(self._pidfd, select.POLLIN)
        if (signals := self._signals.fileno()) is not None:
            poll.want(signals, select.POLLIN)
        if self._link is not None and not self._link.closed:
            poll.want(self._link.fileno(), select.POLLIN)
        ready = poll.wait(seconds)
        self._relay.pump(ready)
        self._typing.pump(ready)
        if self._link is not None and ready.get(self._link.fileno()):
            self._listen()
        if signals is None or ready.get(signals):
            self._take_signals()
            self._reap()
        elif self._pidfd is None or ready.get(self._pidfd):
            self._reap()

    # --- the command's end ----------------------------------------------------------------------------

    def _reap(self) -> None:
        """Our child's end, and those of orphans that came to us; never a wait that could block."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._exit = pidfd.decode(status)
                if self._journal is not None:
                    self._journal.write("exit", seen_by="front", **as_json(self._exit))
                if self._link is not None:
                    self._link.send(exited=as_json(self._exit))
            elif pid == self._judge:
                self._judge_died(status)

    def _judge_died(self, status: int) -> None:
        self._judge = None
        if self._exit is not None:
            return
        if self._journal is not None:
            self._journal.write("trouble", what=f"the judge died (wait status {status}); the command goes on")
        known = procfs.stat(self._pid)
        if known is not None and known.state == "T":  # it may have been frozen to be measured
            os.kill(self._pid, signal.SIGCONT)
        self._let_go()

    def _let_go(self) -> None:
        """Nobody judges any more: nothing may stay frozen at a line."""
        if self._fence is not None:
            try:
                self._fence.let_go()
            except OSError:
                return  # the judge had removed it already

    def _await_verdict(self) -> None:
        deadline = time.monotonic() + VERDICT_WAIT
        while self._judge is not None and not self._done and time.monotonic() < deadline:
            self._turn(TURN)
        if self._judge is None and self._fence is not None:
            self._fence.remove()

    def _part_with_judge(self) -> None:
        """Another attempt has a judge of its own: this one ends first, so that nothing of it stands in the way."""
        if self._judge is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._judge, 0)
        self._signals.close()
        if self._pidfd is not None:
            os.close(self._pidfd)

    def _linger(self) -> None:
        """A daemon that was left behind still holds the output: a relay stays for it, as a shell would."""
        if self._relay.finished or self._abandoned:
            return
        if os.fork():
            return
        os.setsid()
        self._given.let_go()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            while not self._relay.finished:
                poll = Poller()
                self._relay.register(poll)
                self._relay.pump(poll.wait(3600))
        finally:
            os._exit(0)

    # --- words and signals ----------------------------------------------------------------------------

    def _listen(self) -> None:
        while self._link is not None and not self._link.closed:
            message = self._link.receive()
            if message is None:
                return
            if "say" in message:
                self.say(str(message["say"]))
            if "status" in message:
                self._status = int(message["status"])
            if "again" in message:
                self.again = dict(message["again"])
            if "done" in message:
                self._done = True
            if "abandon" in message and self._exit is None:
                # Killed, but stuck in the kernel: it can neither be waited for nor write any more.
                self._exit = Exit(signal=signal.SIGKILL)
                self._abandoned = True

    def say(self, text: str) -> None:
        raw = self._stage.raw is not None and self._stage.raw.active
        lines = text + "\n"
        try:
            os.write(2, (lines.replace("\n", "\r\n") if raw else lines).encode(errors="backslashreplace"))
        except OSError:
            return  # nobody is reading

    def _take_signals(self) -> None:
        for arrived in self._signals.take():
            if arrived.number == signal.SIGCHLD or arrived.sender == os.getpid():
                continue  # it only woke us: `_reap` looks; or it was meant for the others of our group
            if arrived.number == signal.SIGTSTP and self._would_stop():
                self._stop_with_command()
                continue
            if arrived.number == signal.SIGWINCH and self._stage.master is not None:
                terminal.copy_window_size(1 if terminal.is_terminal(1) else 2, self._stage.master)
                continue
            self._forward(arrived)

    def _forward(self, arrived: Arrived) -> None:
        asks_to_end = arrived.number in ENDING and arrived.number not in self._given.ignored
        if asks_to_end or self._exit is not None:
            self._called_off = True  # whoever asks keepfit to end does not want another attempt
        if self._exit is not None:
            return
        self._note(arrived)
        if arrived.typed and self._stage.wiring.shares_our_group:
            return  # it shares our terminal's group: the kernel sent it there as well
        try:
            if arrived.typed:
                os.killpg(self._pid, arrived.number)
            else:
                arrived.pass_on(self._pid)
        except OSError:
            return  # it ended meanwhile

    def _note(self, arrived: Arrived) -> None:
        if self._journal is None or arrived.number in _EVERYDAY:
            return
        known = procfs.stat(arrived.sender) if arrived.sender else None
        self._journal.write(
            "signal",
            time=time.monotonic(),
            signal=arrived.number,
            sender=arrived.sender,
            sender_name=known.name if known else None,
        )

    def _typed(self, keys: bytes) -> bytes:
        """Keys that are signals reach our own group too, as if the command had not a terminal of its own.

        The shell script, the `make` or the `time` around us would have met them. Ctrl-Z is ours to act on: alone in
        its session the command cannot be stopped by its own terminal.
        """
        master = self._stage.master
        if master is None or terminal.foreground(master) != self._pid:
            return keys  # a shell inside has a job of its own in front: that one is meant
        for key, number in terminal.keys_of_signals(master).items():
            if key not in keys:
                continue
            os.killpg(0, number)  # all but us: we know that we have sent it
            if number == signal.SIGTSTP and self._would_stop():
                self._stop_with_command()
                keys = keys.replace(key, b"")
        return keys

    def _would_stop(self) -> bool:
        """Whether Ctrl-Z would stop the command if we were not there; else it goes its way, as any other signal."""
        meets_it = procfs.catches(self._pid, signal.SIGTSTP) or procfs.ignores(self._pid, signal.SIGTSTP)
        return not (meets_it or procfs.is_in_an_orphaned_group())

    def _stop_with_command(self) -> None:
        if self._stage.raw is not None:
            self._stage.raw.leave()
        if not self._stage.wiring.shares_our_group:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)  # until SIGCONT
        if self._stage.raw is not None:
            self._stage.raw.enter()
            if self._stage.master is not None:
                terminal.copy_window_size(1, self._stage.master)
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGCONT)
