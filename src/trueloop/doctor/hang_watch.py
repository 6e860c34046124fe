"""A run of ours on several ranks, watched for nothing but ranks that can never meet again: no observer and no rule
besides.

The loop tells its own facts; what it cannot tell is that it stands still. So the collectives are written down here, as
`trueloop check` does it, and the same thread looks at them. A run of one process is not touched, nor one that somebody
in this process watches already:
`trueloop check`, or a vigil around this one.
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
_vigils: Final = count()
"""Those of this process, counted: all ranks keep as many, and those of one number meet."""
_watching: Final[list[_Vigil]] = []
"""The one that lasts."""


def set_hang_recorder(record: Callable[[str], None]) -> None:
    """While a vigil lasts: who writes down, on the rank that tells it, why the run was ended."""
    for watching in _watching:
        watching.record = record


@contextmanager
def watch_for_hangs(hang_after: float, show: Callable[[Finding], None], exit_code: int) -> Iterator[None]:
    """While this lasts, ranks that wait for one another for ever end the run: one of them shows why, all end with the
    exit code."""
    me = (
        None
        if (here := _here()) is None
        else replace(here, folder=here.folder.with_name(f"{here.folder.name}-{next(_vigils)}"))
    )
    if me is not None:
        register_rank(me)
    if me is None or shared_folder(me) is None:
        yield
        return
    watching = _Vigil(me, hang_after, show, exit_code)
    try:
        yield
    except BaseException as error:
        watching.end(error)
        raise
    watching.end()


def _here() -> Rank | None:
    """None: this is the only process, or it is being watched."""
    me = Rank.here(least=1) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else None
    return None if me is None or me.has_begun(me.number) or _watching else me


@final
class _Vigil:
    def __init__(self, me: Rank, hang_after: float, show: Callable[[Finding], None], exit_code: int) -> None:
        self._me, self._hang_after, self._show, self._exit_code = me, hang_after, show, exit_code
        self._bus = Bus(lambda _: None)
        self._bus.ranks_folder, self._bus.on_joined = me.folder, self._begin
        self._bench = CrossRankRules(select((RULE,), ()), Settings())
        self.record: Callable[[str], None] = lambda _: None
        self._telling = False
        self._watchdog: Watchdog | None = None
        self._tap = CollectiveTap(self._bus)
        self._tap.install()
        _watching.append(self)

    def _begin(self) -> None:
        assert self._bus.collective_log is not None
        self._watchdog = Watchdog(
            self._me, self._bus.collective_log, self._bench, self._hang_after, self._hung, far=True
        )
        self._watchdog.start()

    def end(self, error: BaseException | None = None) -> None:
        """The run has come to its end. The last to leave takes the folder away; one that waits still must read that
        this one has left."""
        if self._telling and self._watchdog is not None:
            self._watchdog.join()  # why it failed is being told, and ends this process
        _watching.remove(self)
        if self._watchdog is not None:
            self._watchdog.leave()
        self._tap.remove()
        self._me.put(
            f"{self._me.number}.verdict",
            pickle.dumps(self._verdict("finished" if error is None else "exception", error)),
        )
        if all(self._me.has_ended(number) or self._me.has_died(number) for number in self._me.others):
            shutil.rmtree(self._me.folder, ignore_errors=True)

    def _hung(self, known: tuple[RankFact, ...]) -> NoReturn:
        """Called by the watching thread: the one that trains will not come back."""
        self._telling = True
        try:
            verdict = merge_reports(self._verdict("hung", known=known), self._bench, self._me)
            if not verdict.reported_elsewhere:
                for finding in verdict.findings:
                    self._show(finding)
                self.record(" ".join(finding.message for finding in verdict.findings))
                mark_reported(self._me)
        finally:
            end_workers()  # last: a training thread that waits for one would wake up, and fail
            os._exit(self._exit_code)

    def _verdict(
        self,
        ended: Literal["finished", "exception", "hung"],
        error: BaseException | None = None,
        known: tuple[RankFact, ...] = (),
    ) -> Verdict:
        journal = self._bus.collective_log
        failure = "" if error is None else f"{type(error).__name__}: {error}".partition("\n")[0]
        calls = CollectivesCalled(0, None, self._me.number, () if journal is None else journal.calls(), ended, failure)
        return Verdict((), _UNWATCHED, (), Outcome(ended), facts=(calls, *known))
