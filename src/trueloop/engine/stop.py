"""SIGTERM, SIGINT and SIGHUP end the current step or evaluation, save, and stop the run. A second Ctrl-C does not
wait."""

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, TypeVar, final

from trueloop.hook import Ending

__all__ = ["Interrupted", "Stop", "catch_signals", "ignore_signals"]

Item = TypeVar("Item")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGHUP: the terminal was closed
_PATIENCE: Final = 60  # Seconds in which a run that was asked to stop takes its last batches


class Interrupted(Exception):
    """A signal asked the run to stop in the middle of an evaluation."""


@final
class Stop:
    """Why a run ends early."""

    def __init__(self) -> None:
        self.signal = 0  # The signal that asked for it; 0: none
        self.ending: Ending | None = None

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number

    def interruptible(self, items: Iterable[Item]) -> Iterator[Item]:
        """The same items; raises Interrupted before the next one when a signal has asked to stop."""
        for item in items:
            if self.signal:
                raise Interrupted
            yield item


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
