"""Hang detection for `trueloop train` on several ranks, without observers and other rules.

The engine reports its own facts, but cannot report that it hangs. So its collectives are logged here, as by `trueloop
check`, and the same thread compares them. A run of one process is not touched, nor one that is already watched in this
process, by `trueloop check` or by an outer hang watch.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Final, Literal, NoReturn, final

from trueloop.doctor.cross_rank_rules import CrossRankRules
from trueloop.doctor.hang import Watchdog, end_workers
from trueloop.doctor.ranks import Rank, mark_reported, merge_reports, register_rank, shared_folder
from trueloop.event import CollectivesCalled, RankFact
from trueloop.finding import Finding
from trueloop.results.check import Outcome, Verdict, Watched
from trueloop.rules.catalogue import select
from trueloop.taps.bus import Bus
from trueloop.taps.collective import CollectiveTap
from trueloop.usercode.settings import Settings

__all__ = ["set_hang_recorder", "watch_for_hangs"]

RULE: Final = "PAR106"
_UNWATCHED: Final = Watched("", 0, 0, 0, 0, (), (), rules=0)
_Ended = Literal["finished", "exception", "hung"]
_watches: Final = count()
"""Numbers the watches of this process: all ranks have as many, and those with one number share a folder."""
_watching: Final[list[_HangWatch]] = []  # The active one


def set_hang_recorder(record: Callable[[str], None]) -> None:
    """Sets the function that records, on the rank that reports, why the run was ended."""
    for watching in _watching:
        watching.record = record


@contextmanager
def watch_for_hangs(hang_after: float, show: Callable[[Finding], None], exit_code: int) -> Iterator[None]:
    """In this context, ranks that wait for one another forever end the run: one reports why, all exit with the code."""
    me = _here()
    if me is not None:
        me = replace(me, folder=me.folder.with_name(f"{me.folder.name}-{next(_watches)}"))
        register_rank(me)
    if me is None or shared_folder(me) is None:
        yield
        return
    watching = _HangWatch(me, hang_after, show, exit_code)
    try:
        yield
    except BaseException as error:
        watching.end(error)
        raise
    watching.end()


def _here() -> Rank | None:
    """None if this is the only process, or if it is watched already."""
    me = Rank.here(least=1) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None
    return None if me is None or me.has_begun(me.number) or _watching else me


@final
class _HangWatch:
    def __init__(self, me: Rank, hang_after: float, show: Callable[[Finding], None], exit_code: int) -> None:
        self._me, self._hang_after, self._show, self._exit_code = me, hang_after, show, exit_code
        self._bus = Bus(lambda _: None)
        self._bus.ranks_folder, self._bus.on_joined = me.folder, self._begin
        self._rules = CrossRankRules(select((RULE,), ()), Settings())
        self.record: Callable[[str], None] = lambda _: None
        self._reporting = False
        self._watchdog: Watchdog | None = None
        self._tap = CollectiveTap(self._bus)
        self._tap.install()
        _watching.append(self)

    def _begin(self) -> None:
        assert self._bus.collective_log is not None
        log = self._bus.collective_log
        self._watchdog = Watchdog(self._me, log, self._rules, self._hang_after, self._hung, remote=True)
        self._watchdog.start()

    def end(self, error: BaseException | None = None) -> None:
        """The run has ended. The last rank removes the folder; a waiting rank must read that this one has ended."""
        if self._reporting and self._watchdog is not None:
            self._watchdog.join()  # it is reporting the hang, and ends this process
        _watching.remove(self)
        if self._watchdog is not None:
            self._watchdog.leave()
        self._tap.remove()
        verdict = self._verdict("finished" if error is None else "exception", error)
        self._me.put(f"{self._me.number}.verdict", pickle.dumps(verdict))
        if all(self._me.has_ended(number) or self._me.has_died(number) for number in self._me.others):
            shutil.rmtree(self._me.folder, ignore_errors=True)

    def _hung(self, known: tuple[RankFact, ...]) -> NoReturn:
        """Called by the sampling thread: the training thread will not return."""
        self._reporting = True
        try:
            verdict = merge_reports(self._verdict("hung", known=known), self._rules, self._me)
            if not verdict.reported_elsewhere:
                for finding in verdict.findings:
                    self._show(finding)
                self.record(" ".join(finding.message for finding in verdict.findings))
                mark_reported(self._me)
        finally:
            end_workers()  # last: a training thread that waits for a worker would wake up and fail
            os._exit(self._exit_code)

    def _verdict(self, ended: _Ended, error: BaseException | None = None, known: tuple[RankFact, ...] = ()) -> Verdict:
        log = self._bus.collective_log
        failure = "" if error is None else f"{type(error).__name__}: {error}".partition("\n")[0]
        calls = CollectivesCalled(0, None, self._me.number, () if log is None else log.calls(), ended, failure)
        return Verdict((), _UNWATCHED, (), Outcome(ended), facts=(calls, *known))
