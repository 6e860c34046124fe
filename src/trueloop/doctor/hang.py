"""Ranks that wait for one another: a thread that looks once a second, and ends the run when they can never meet.

A rank is suspected when its script has stood at one instruction for long. That alone proves nothing: another rank may
be evaluating, or writing a checkpoint. So the journals of all ranks on this machine are compared, and only where they
contradict (two ranks are in different collectives, or one has ended and will never come), or where the rank that is
missed has itself stood as long in one fetch of data or is stopped, is there a finding, and only then does the run end.
Otherwise it is told, once, who waits for whom, and the run goes on. The ranks of other machines are asked (`far.py`):
they say the same of themselves, or cannot be reached.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, final

from trueloop.doctor.cross_rank_rules import CrossRankRules
from trueloop.doctor.rank_status import RankStatus
from trueloop.doctor.ranks import Rank
from trueloop.doctor.remote_ranks import LONGEST_QUESTION, RemoteRanks, remote_facts
from trueloop.doctor.thread_sampler import ThreadSampler
from trueloop.event import Collective, CollectivesCalled, Event, Place, RankFact, RankStalled
from trueloop.taps.collective_log import CollectiveLog
from trueloop.usercode.source import shown_path

__all__ = ["HANG_AFTER", "Watchdog", "end_workers"]

HANG_AFTER: Final = 300.0
"""Seconds that a rank stands still before the journals are compared: half of what NCCL waits before it tears the
process down."""
PAUSE: Final = 1.0
STOPPED_TOO: Final = 5
"""Pauses between two looks after which this process was itself stopped (Ctrl-Z on the whole run): nobody is to blame
then."""
SETTLED: Final = 3
"""Pauses more before a rank says that it waits and the run goes on: the others have looked by then too."""
SUSPECTED: Final = 0.5
"""Share of --hang-after from which other machines are asked: when it is over, they have been asked several times."""
ASKED: Final = 0.1
"""Share of --hang-after between two questions."""
TOLD_APART: Final = 0.9
"""Share of --hang-after that the others must have stood: ranks look at different moments, and one of them looks
first."""


@final
class Watchdog(threading.Thread):
    """Watches the thread that makes it. `end` is given what is known of ranks that stand still, and of those of other
    machines."""

    def __init__(
        self,
        me: Rank,
        journal: CollectiveLog,
        bench: CrossRankRules,
        hang_after: float,
        end: Callable[[tuple[RankFact, ...]], None],
        *,
        far: bool = False,
    ) -> None:
        super().__init__(name="trueloop watches for ranks that hang", daemon=True)
        self._me, self._journal, self._bench = me, journal, bench
        self._hang_after, self._end = hang_after, end
        self._pause = min(PAUSE, hang_after / 4)
        self._onlooker = ThreadSampler()
        self._over = threading.Event()
        self._far = RemoteRanks.of(me, self._near) if far else None
        self._asked = 0.0
        self._told_at = -1
        """The collective whose waiting was told."""

    def run(self) -> None:
        if self._far is not None:
            self._far.start()
        while not self._over.wait(self._pause):
            asking = time.monotonic()
            stand = self._onlooker.look(self._journal.written, STOPPED_TOO * self._pause)
            self._me.put(f"{self._me.number}.stand", stand.written())
            self._ask_others(stand)
            self._onlooker.excuse(min(time.monotonic() - asking, LONGEST_QUESTION))
            if stand.seconds() < self._hang_after:
                continue
            near, afar = list(self._near()), list(remote_facts(self._me, self._hang_after))
            if self._bench.judge([*near, *afar]).findings:
                self._end((*(fact for fact in near if isinstance(fact, RankStalled)), *afar))
                return
            if stand.seconds() >= self._hang_after + SETTLED * self._pause:
                self._tell_once([fact for fact in (*near, *afar) if isinstance(fact, CollectivesCalled)])

    def leave(self) -> None:
        """The run has ended by itself."""
        self._over.set()
        if self._far is not None:
            self._far.close()

    def _ask_others(self, stand: RankStatus) -> None:
        if self._far is None:
            return
        if stand.seconds() < SUSPECTED * self._hang_after:
            self._far.forget()
        elif time.monotonic() - self._asked >= ASKED * self._hang_after:
            self._asked = time.monotonic()
            self._far.ask()

    # -- what is known of the ranks --

    def _near(self) -> Iterator[Event]:
        yield from self._called()
        yield from self._stood()

    def _called(self) -> Iterator[CollectivesCalled]:
        verdicts = self._me.verdicts()
        for number in (self._me.number, *self._me.others):
            ended = (
                [fact for fact in verdicts[number].facts if isinstance(fact, CollectivesCalled)]
                if number in verdicts
                else []
            )
            yield from ended or [self._me.last_seen(number)]

    def _stood(self) -> Iterator[RankStalled]:
        """Ranks that will not move: they wait for one batch as long as the user is ready to wait, or cannot move at
        all."""
        now, verdicts = time.monotonic(), self._me.verdicts()
        for number in (self._me.number, *self._me.others):
            stand = self._me.stand_of(number)
            if number in verdicts:
                yield from (fact for fact in verdicts[number].facts if isinstance(fact, RankStalled))
            if stand is None or number in verdicts:
                continue
            place = stand.places[0] if stand.places else None
            silent = now - stand.looked
            if self._me.is_stopped(number) and silent >= self._hang_after * TOLD_APART:
                yield RankStalled(0, place, number, "stopped", silent, _time_of_day(silent), "")
            elif stand.doing == "loading" and stand.seconds() >= self._hang_after * TOLD_APART:
                since = now - stand.since
                yield RankStalled(0, place, number, "loading", since, _time_of_day(since), stand.fetching)

    # -- waiting that may be meant --

    def _tell_once(self, called: list[CollectivesCalled]) -> None:
        """The first of those who wait says so, once for each collective."""
        waiting = {told.rank: call for told in called for call in told.calls if call.state == "inside"}
        mine = waiting.get(self._me.number)
        if mine is None or self._me.number != min(waiting) or self._told_at == self._journal.written:
            return
        self._told_at = self._journal.written
        missed = [
            self._whereabouts(number) for number in mine.members if number != self._me.number and number not in waiting
        ]
        here = f"rank {self._me.number} has waited {mine.seconds:.0f} s in {_named(mine)}"
        sys.stderr.write(f"note: {'; '.join([here, *missed])}. The run goes on.\n")
        sys.stderr.flush()

    def _whereabouts(self, number: int) -> str:
        stand = self._me.stand_of(number) if number in self._me.others else None
        if stand is None:
            return f"nothing is known of rank {number}"
        at = _shown(stand.places[0] if stand.places else None)
        silent = time.monotonic() - stand.looked
        if silent > STOPPED_TOO * self._pause:
            return f"nothing is heard of rank {number} since {_time_of_day(silent)}, when it was at {at}"
        return f"rank {number} {_bearing(stand, self._pause)} {at}"


def end_workers() -> None:
    """The processes that this one would end with, if it came to its end: a worker that is stuck would outlive it."""
    for child in multiprocessing.active_children():
        if child.daemon:
            child.kill()


def _bearing(stand: RankStatus, pause: float) -> str:
    return f"has stood for {stand.seconds():.0f} s at" if stand.seconds() > STOPPED_TOO * pause else "is at work at"


def _named(call: Collective) -> str:
    return f"{call.name} #{call.number} ({_shown(call.places[0] if call.places else None)})"


def _shown(place: Place | None) -> str:
    return "a line of a library" if place is None else f"{shown_path(place.path)}:{place.line}"


def _time_of_day(seconds_ago: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time.time() - seconds_ago))
