"""Hang detection: a thread samples this rank once a second, and ends the run when its ranks can never meet again.

A rank that stays at one instruction for long is only suspected: another rank may be evaluating, or writing a
checkpoint. So the collective logs of all ranks on this machine are compared. There is a finding, and the run ends, only
if they contradict one another (two ranks are in different collectives, or one has ended), or if the missing rank has
waited as long for one batch, or is stopped. Otherwise one note says who waits for whom, and the run continues. Ranks on
other machines are queried (`remote_ranks.py`): they report the same about themselves, or cannot be reached.
"""

import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, final

from trueloop.doctor.cross_rank_rules import CrossRankRules
from trueloop.doctor.rank_status import RankStatus
from trueloop.doctor.ranks import Rank
from trueloop.doctor.remote_ranks import LONGEST_QUERY, RemoteRanks, remote_facts
from trueloop.doctor.thread_sampler import ThreadSampler
from trueloop.event import Collective, CollectivesCalled, Event, Place, RankFact, RankStalled
from trueloop.taps.collective_log import CollectiveLog
from trueloop.usercode.source import shown_place

__all__ = ["HANG_AFTER", "Watchdog", "end_workers"]

HANG_AFTER: Final = 300.0  # Seconds without progress before logs are compared: half of NCCL's timeout, which kills
PAUSE: Final = 1.0
STOPPED_TOO: Final = 5  # Pauses between two samples after which this process itself was stopped (Ctrl-Z on the run)
GRACE: Final = 3  # Pauses to wait before the note that the run continues: by then the other ranks have sampled too
SUSPECTED: Final = 0.5  # Fraction of --hang-after after which other machines are queried, several times until then
QUERY_EVERY: Final = 0.1  # Fraction of --hang-after between two queries
SAMPLING_SLACK: Final = 0.9  # Fraction of --hang-after that other ranks must have waited: ranks sample at other times


@final
class Watchdog(threading.Thread):
    """Watches the thread that creates it. `end` receives the facts of ranks that hang, and those of other machines."""

    def __init__(
        self,
        me: Rank,
        log: CollectiveLog,
        rules: CrossRankRules,
        hang_after: float,
        end: Callable[[tuple[RankFact, ...]], None],
        *,
        remote: bool = False,
    ) -> None:
        super().__init__(name="trueloop watches for ranks that hang", daemon=True)
        self._me, self._log, self._rules = me, log, rules
        self._hang_after, self._end = hang_after, end
        self._pause = min(PAUSE, hang_after / 4)
        self._sampler = ThreadSampler()
        self._over = threading.Event()
        self._remote = RemoteRanks.of(me, self._local_facts) if remote else None
        self._queried = 0.0
        self._noted_at = -1  # The collective for which a note was printed

    def run(self) -> None:
        if self._remote is not None:
            self._remote.start()
        while not self._over.wait(self._pause):
            began = time.monotonic()
            status = self._sampler.sample(self._log.written, STOPPED_TOO * self._pause)
            self._me.put(f"{self._me.number}.status", status.to_json())
            self._query_others(status)
            self._sampler.excuse(min(time.monotonic() - began, LONGEST_QUERY))
            if status.seconds() < self._hang_after:
                continue
            local, remote = list(self._local_facts()), list(remote_facts(self._me, self._hang_after))
            if self._rules.check([*local, *remote]).findings:
                self._end((*(fact for fact in local if isinstance(fact, RankStalled)), *remote))
                return
            if status.seconds() >= self._hang_after + GRACE * self._pause:
                self._print_note([fact for fact in (*local, *remote) if isinstance(fact, CollectivesCalled)])

    def leave(self) -> None:
        """The run has ended normally."""
        self._over.set()
        if self._remote is not None:
            self._remote.close()

    def _query_others(self, status: RankStatus) -> None:
        if self._remote is None:
            return
        if status.seconds() < SUSPECTED * self._hang_after:
            self._remote.clear()
        elif time.monotonic() - self._queried >= QUERY_EVERY * self._hang_after:
            self._queried = time.monotonic()
            self._remote.query()

    # -- what is known of the ranks --

    def _local_facts(self) -> Iterator[Event]:
        yield from self._collectives()
        yield from self._stalled()

    def _collectives(self) -> Iterator[CollectivesCalled]:
        verdicts = self._me.verdicts()
        for number in (self._me.number, *self._me.others):
            known = verdicts[number].facts if number in verdicts else ()
            ended = [fact for fact in known if isinstance(fact, CollectivesCalled)]
            yield from ended or [self._me.last_seen(number)]

    def _stalled(self) -> Iterator[RankStalled]:
        """Ranks that make no progress: they have waited for one batch longer than --hang-after, or are stopped."""
        now, verdicts = time.monotonic(), self._me.verdicts()
        for number in (self._me.number, *self._me.others):
            status = self._me.status_of(number)
            if number in verdicts:
                yield from (fact for fact in verdicts[number].facts if isinstance(fact, RankStalled))
            if status is None or number in verdicts:
                continue
            place = status.places[0] if status.places else None
            silent = now - status.looked
            if self._me.is_stopped(number) and silent >= self._hang_after * SAMPLING_SLACK:
                yield RankStalled(0, place, number, "stopped", silent, _time_of_day(silent), "")
            elif status.doing == "loading" and status.seconds() >= self._hang_after * SAMPLING_SLACK:
                since = now - status.since
                yield RankStalled(0, place, number, "loading", since, _time_of_day(since), status.fetching)

    # -- waiting that may be intended --

    def _print_note(self, called: list[CollectivesCalled]) -> None:
        """The first of the waiting ranks prints a note, once for each collective."""
        waiting = {fact.rank: call for fact in called for call in fact.calls if call.state == "inside"}
        mine = waiting.get(self._me.number)
        if mine is None or self._me.number != min(waiting) or self._noted_at == self._log.written:
            return
        self._noted_at = self._log.written
        absent = [number for number in mine.members if number != self._me.number and number not in waiting]
        here = f"rank {self._me.number} has waited {mine.seconds:.0f} s in {_named(mine)}"
        sys.stderr.write(f"note: {'; '.join([here, *map(self._position, absent)])}. The run continues.\n")
        sys.stderr.flush()

    def _position(self, number: int) -> str:
        status = self._me.status_of(number) if number in self._me.others else None
        if status is None:
            return f"the state of rank {number} is unknown"
        at = _shown(status.places[0] if status.places else None)
        silent = time.monotonic() - status.looked
        if silent > STOPPED_TOO * self._pause:
            return f"rank {number} has not responded since {_time_of_day(silent)}, when it was at {at}"
        stuck = status.seconds() > STOPPED_TOO * self._pause
        return f"rank {number} {f'has been for {status.seconds():.0f} s' if stuck else 'is'} at {at}"


def end_workers() -> None:
    """Kill the daemon processes of this one: a stuck DataLoader worker would outlive it."""
    for child in multiprocessing.active_children():
        if child.daemon:
            child.kill()


def _named(call: Collective) -> str:
    return f"{call.name} #{call.number} ({_shown(call.places[0] if call.places else None)})"


def _shown(place: Place | None) -> str:
    return "a line of a library" if place is None else shown_place(place)


def _time_of_day(seconds_ago: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time.time() - seconds_ago))
