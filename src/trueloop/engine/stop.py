"""SIGTERM, SIGINT and SIGHUP end the current step or evaluation, save, and stop the run. A second Ctrl-C does not
wait. Several processes stop together: after every few steps or batches they tell each other who was asked to."""

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeVar, final

import torch

from trueloop.hook import Ending
from trueloop.parallel.peers import Peers

__all__ = ["Abandoned", "Interrupted", "Stop", "StopTogether", "catch_signals", "ignore_signals"]

Item = TypeVar("Item")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGHUP: the terminal was closed
_ASK_EVERY: Final = 0.25  # Seconds between two questions of several processes whether one was asked to stop
ASK_AFTER_AT_MOST: Final = 10  # Steps or batches between them: later ones may take longer
_PATIENCE: Final = 60  # Seconds in which a run that was asked to stop takes its last batches


class Interrupted(Exception):
    """A signal asked the run to stop in the middle of an evaluation."""


class Abandoned(BaseException):
    """A signal, raised inside code that nothing else could stop. Not an Exception: that code may catch those."""


@final
class Stop:
    """Why a run ends early."""

    def __init__(self) -> None:
        self.signal = 0  # The signal that asked this process for it; 0: none
        self.agreed = 0  # The signal by which all processes stop; 0: none
        self.ending: Ending | None = None
        self._raises = False

    @contextmanager
    def raising(self) -> Iterator[None]:
        """A signal raises Abandoned inside, wherever the code is. Only around code whose effects are undone then."""
        try:
            self._raises = True
            if self.signal:
                raise Abandoned
            yield
        finally:
            self._raises = False

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        if self._raises:
            self._raises = False
            raise Abandoned


@final
class StopTogether:
    """The processes of a run learn of each other's signals. How many steps or batches lie between two questions follows
    from the time that they take on all processes, so all ask at the same ones. One process asks nobody."""

    def __init__(self, stop: Stop, peers: Peers, device: torch.device) -> None:
        self.stop, self.peers, self.device = stop, peers, device
        self._every, self._since = 1, 0
        self._clock = time.perf_counter()

    def asked(self, *, now: bool = False) -> bool:
        """To be called after each step, or before each batch, by all processes equally often: must they stop?
        `now`: ask at once, as after an evaluation, which may have taken long."""
        if self.peers.world == 1:
            self.stop.agreed = self.stop.signal
            return bool(self.stop.signal)
        self._since += 1
        return (now or self._since >= self._every) and self._ask(busy=True)[0]

    def interruptible(self, items: Iterable[Item], *, equally_many: bool = False) -> Iterator[Item]:
        """The same items; raises Interrupted before one of them if a signal has asked any process to stop. A process
        with fewer items answers the others until they have none left, unless all have `equally_many`."""
        for item in items:
            if self.asked():
                raise Interrupted
            yield item
        busy = self.peers.world > 1 and not equally_many
        while busy:
            stopped, busy = self._ask(busy=False)
            if stopped:
                raise Interrupted

    def _ask(self, *, busy: bool) -> tuple[bool, bool]:
        """Was any process asked to stop? Is any of them still busy?"""
        now = time.perf_counter()
        seconds = (now - self._clock) / self._since if busy else 0.0
        told = torch.tensor([float(bool(self.stop.signal)), float(busy), seconds], device=self.device)
        signals, others, total = self.peers.sum(told).tolist()
        if others:
            self._every = max(1, min(ASK_AFTER_AT_MOST, int(_ASK_EVERY * others / max(total, 1e-9))))
        self._since, self._clock = 0, now
        if signals:
            self.stop.agreed = max(self.peers.gather(self.stop.signal))
        return bool(signals), bool(others)


@contextmanager
def catch_signals(stop: Stop) -> Iterator[None]:
    """Only Python's main thread can handle signals; in other threads this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and a shell's `&` ignore signals on purpose
            before[number] = signal.signal(number, stop.ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def ignore_signals(worker: int = 0) -> None:
    """For a DataLoader worker: Ctrl-C, and a SIGTERM or SIGHUP to the process group, are meant for the training
    process, which still needs its batches, and ends its workers itself. After a single SIGTERM (from a process that
    fails and waits for its workers) a worker exits after a while, so nothing waits forever; after a second one, at
    once."""
    received = 0

    def on_sigterm(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        if received > 1:
            os._exit(0)
        signal.alarm(_PATIENCE)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, on_sigterm)
