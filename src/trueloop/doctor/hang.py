"""Ranks that wait for one another: a thread that looks once a second, and ends the run when they can never meet.

A rank is suspected when its script has stood at one instruction for long. That alone proves nothing: another rank may be evaluating, or
writing a checkpoint. So the journals of all ranks on this machine are compared, and only where they contradict (two ranks are in different
collectives, or one has ended and will never come) is there a finding, and only then does the run end.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, final

from trueloop.doctor.ranks import Rank
from trueloop.doctor.together import Bench
from trueloop.event import CollectivesCalled
from trueloop.taps.journal import Journal

__all__ = ["HANG_AFTER", "Watchdog"]

HANG_AFTER: Final = 300.0
"""Seconds that a rank stands still before the journals are compared: half of what NCCL waits before it tears the process down."""
PAUSE: Final = 1.0


@final
class Watchdog(threading.Thread):
    """Watches the thread that makes it."""

    def __init__(self, me: Rank, journal: Journal, bench: Bench, hang_after: float, end: Callable[[], None]) -> None:
        super().__init__(name="trueloop watches for ranks that hang", daemon=True)
        self._me, self._journal, self._bench = me, journal, bench
        self._hang_after, self._end = hang_after, end
        self._watched = threading.get_ident()
        self._over = threading.Event()
        self._seen: tuple[int, int, int] = (0, 0, 0)
        self._since = time.monotonic()

    def run(self) -> None:
        while not self._over.wait(min(PAUSE, self._hang_after / 4)):
            if self._stands_still() >= self._hang_after and self._bench.judge(self._facts()).findings:
                self._end()
                return

    def leave(self) -> None:
        """The run has ended by itself."""
        self._over.set()

    def _stands_still(self) -> float:
        """Seconds since the watched thread was last seen at another instruction, or called another collective."""
        frame = sys._current_frames().get(self._watched)
        seen = (id(frame), -1 if frame is None else frame.f_lasti, self._journal.written)
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since

    def _facts(self) -> Iterator[CollectivesCalled]:
        verdicts = self._me.verdicts()
        for number in (self._me.number, *self._me.others):
            ended = [fact for fact in verdicts[number].facts if isinstance(fact, CollectivesCalled)] if number in verdicts else []
            yield from ended or [self._me.last_seen(number)]
