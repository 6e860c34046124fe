"""Being asked to stop: SIGTERM and SIGINT end the step, save, and leave. A second Ctrl-C does not wait."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, final

__all__ = ["Stop", "catch_signals", "ignore_signals"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_PATIENCE: Final = 60
"""Seconds in which a run that was told to stop takes its last batches."""


@final
class Stop:
    """Which signal asked for the end, if any."""

    def __init__(self) -> None:
        self.signal = 0

    def ask(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal == signal.SIGINT and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def catch_signals(stop: Stop) -> Iterator[None]:
    """Only Python's main thread may listen to signals; in others the run is stopped by whoever started it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    for number in _SIGNALS:
        if (
            signal.getsignal(number) is not signal.SIG_IGN
        ):  # whoever started this (nohup, a shell's `&`) has shielded it on purpose
            before[number] = signal.signal(number, stop.ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def ignore_signals(worker: int = 0) -> None:
    """For a loader's worker. Ctrl-C, and a SIGTERM to the whole group, mean the process that trains: it still needs its
    batches.

    That process ends its workers itself; one that does not hear is told by SIGTERM, again and again: the second time it
    goes. Told only once, as by a process that fails and waits for its workers, it goes after a while: nobody waits for
    ever.
    """
    told = 0

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal told
        told += 1
        if told > 1:
            os._exit(0)
        signal.alarm(_PATIENCE)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, hear)
