"""Samples the user's current line in the training thread, every millisecond for a few steps.

Uses a timer signal, which Python handles between two instructions of that thread, so each line is sampled in proportion
to its time. A longer call into torch is sampled when it returns; the sample stands for the time since the previous one.
If the signal is in use or unavailable, another thread samples instead. It gets the GIL more easily while torch
computes, so it underestimates Python a little.
"""

import signal
import sys
import threading
from bisect import bisect_right
from collections import Counter
from time import perf_counter_ns
from types import FrameType
from typing import Final, final

from trueloop.event import Place
from trueloop.profile.clock import PhaseSpan
from trueloop.results.profile import HotLine, Phase
from trueloop.taps.place import is_users, place_in

__all__ = ["Sampler"]

EVERY: Final = 0.001  # Seconds between two samples; sampling costs about 1 %
SHOWN: Final = 8  # Number of lines kept


@final
class Sampler:
    """Samples between `start` and `stop`; both are called by the sampled thread."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, Place | None]] = []
        self._target = threading.get_ident()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._by_signal = False

    def start(self) -> None:
        if _signal_is_free():
            self._by_signal = True
            signal.signal(signal.SIGALRM, self._on_signal)
            signal.siginterrupt(signal.SIGALRM, False)
            signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
            return
        self._thread = threading.Thread(target=self._sample_loop, name="trueloop-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._by_signal:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if signal.getsignal(signal.SIGALRM) == self._on_signal:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.samples.append((perf_counter_ns(), _line_of(frame)))

    def _sample_loop(self) -> None:
        while not self._over.wait(EVERY):
            frame = sys._current_frames().get(self._target)
            self.samples.append((perf_counter_ns(), _line_of(frame)))
            del frame

    def lines(self, spans: list[PhaseSpan]) -> tuple[HotLine, ...]:
        """The lines with the most time, with the clock's phase at that time; `spans` in order of time."""
        starts = [start for _, start, _ in spans]
        seen: Counter[tuple[Place, Phase]] = Counter()
        first: dict[tuple[str, int], Place] = {}  # a comprehension is a second function on the same line
        total, before = 0, starts[0] if starts else 0
        for when, place in self.samples:
            passed, before = when - before, when
            at = bisect_right(starts, when) - 1
            if at < 0 or when > spans[at][2]:
                continue
            total += passed
            if place is not None:
                seen[first.setdefault((place.path, place.line), place), spans[at][0]] += passed
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
