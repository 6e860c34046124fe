"""Which line of the user's is it? The training's own thread is looked at every millisecond, for a few steps.

By a timer's signal, which Python answers between two instructions of that very thread, so that each line is seen as
long as it takes; a call into torch that takes longer is seen when it returns, and stands for the time since the look
before. Where the signal is in use, or there is none, another thread looks instead: Python lets it in more readily while
torch computes, so it sees a little less of Python.
"""

from __future__ import annotations

import signal
import sys
import threading
from bisect import bisect_right
from collections import Counter
from time import perf_counter_ns
from types import FrameType
from typing import Final, final

from trueloop.event import Place
from trueloop.profile.clock import Piece
from trueloop.results.profile import HotLine, Phase
from trueloop.taps.place import is_users, place_in

__all__ = ["Sampler"]

EVERY: Final = 0.001
"""Seconds between two looks: enough of them in some steps, at a cost of about one per cent while it looks."""
SHOWN: Final = 8
"""Lines that are kept."""


@final
class Sampler:
    """Between `start` and `stop`, both called by the thread that is looked at."""

    def __init__(self) -> None:
        self.looks: list[tuple[int, Place | None]] = []
        self._target = threading.get_ident()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._by_signal = False

    def start(self) -> None:
        if _signal_is_free():
            self._by_signal = True
            signal.signal(signal.SIGALRM, self._answer)
            signal.siginterrupt(signal.SIGALRM, False)
            signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
            return
        self._thread = threading.Thread(target=self._look_on, name="trueloop-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._by_signal:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if signal.getsignal(signal.SIGALRM) == self._answer:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _answer(self, number: int, frame: FrameType | None) -> None:
        self.looks.append((perf_counter_ns(), _line_of(frame)))

    def _look_on(self) -> None:
        while not self._over.wait(EVERY):
            frame = sys._current_frames().get(self._target)
            self.looks.append((perf_counter_ns(), _line_of(frame)))
            del frame

    def lines(self, pieces: list[Piece]) -> tuple[HotLine, ...]:
        """The lines that were seen longest, by the phase that the clock says it was; `pieces` in the order of time."""
        starts = [start for _, start, _ in pieces]
        seen: Counter[tuple[Place, Phase]] = Counter()
        first: dict[tuple[str, int], Place] = {}  # a line with a comprehension is two functions' and one line
        total, before = 0, starts[0] if starts else 0
        for when, place in self.looks:
            passed, before = when - before, when
            at = bisect_right(starts, when) - 1
            if at < 0 or when > pieces[at][2]:
                continue
            total += passed
            if place is not None:
                seen[first.setdefault((place.path, place.line), place), pieces[at][0]] += passed
        return tuple(HotLine(place, phase, ns / total) for (place, phase), ns in seen.most_common(SHOWN))


def _signal_is_free() -> bool:
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def _line_of(frame: FrameType | None) -> Place | None:
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return place_in(frame)
        frame = frame.f_back
    return None
